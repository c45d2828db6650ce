package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq/pqerror"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/doctor"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/view"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/health"
	pgsql "github.com/prescient-go/prescient/sql"
)

func newDoctor(a *App) *cobra.Command {
	return overAll(a.withOutput(&cobra.Command{
		Use:   "doctor",
		Short: "Find problems before they hurt, and print how to fix them",
		Long: `Find problems before they hurt:

  settings   settings that cron would not see, secrets that every user can read, a configuration file that another user
             may have written, a slots.width other than the database's, a missing directory of events.destination,
             private addresses that events.allowed_networks lacks, a crontab that does not fit the slots
  database   a server that is not PostgreSQL, missing rights, a wrong clock, too few connections, transactions that
             hold back vacuum, tables full of dead rows, missing months of history, a schema of another version
  jobs       queries of sql_jobs that cannot run, jobs that this binary does not have
  slots      all that "status --check" finds

Each finding comes with the command that fixes it. The command exits 3 if a finding needs action. It changes nothing and
runs no query of sql_jobs: the server only parses each query and describes its columns.

Like every other command, it names the session that holds a lock if it has waited for the lock for some seconds.`,
		Example: `  prescient doctor
  prescient doctor --output json | jq -r '.findings[].do'`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := a.checkNames(a.registry); err != nil {
				return err
			}
			return a.over(c.Context(), examine)
		},
	}))
}

// doctorView has the findings of doctor, as JSON.
type doctorView struct {
	OK       bool             `json:"ok"` // nothing needs action
	Settings []settingView    `json:"settings"`
	Findings []doctor.Finding `json:"findings"`
	Queries  []queryView      `json:"queries"` // of sql_jobs, as far as they were tried
}

// settingView is a setting that is not the default.
type settingView struct {
	config.Entry
	Cron bool `json:"cron"` // sees it, too
}

func examine(ctx context.Context, a *App) error {
	var view doctorView
	crontabs := doctor.Crontabs(ctx, a.Name)
	if !a.scope.Repeats { // findings about this machine
		view.Findings = append(a.examineSettings(ctx, &view, crontabs), doctor.Skipped(a.config.Skipped)...)
		view.Findings = append(view.Findings, a.examineFile()...)
		view.Findings = append(view.Findings, a.examineClear()...)
		view.Findings = append(view.Findings, a.examineEvents()...)
	}
	db, err := a.connect(ctx)
	if exit, ok := errors.AsType[*ExitError](err); ok && exit.Code == Usage || err != nil && ctx.Err() != nil {
		if len(view.Findings) == 0 {
			return err
		}
		if found := printDoctor(a, view); codeOf(found) == Failure {
			return found
		}
		return err // not a finding: without a database the rest is unknown
	}
	if err != nil {
		view.Findings = append(view.Findings, doctor.Finding{
			Name: "database", Severity: doctor.Action, What: err.Error(), Do: a.lookAtURL(),
		})
		return printDoctor(a, view)
	}
	defer func() { _ = a.closeDB(db) }()
	setting, unread := a.setting(ctx, db) // migrates the private one, as every command does
	found, err := doctor.Look(ctx, doctor.Config{
		DB: db, Schema: a.schema(), Name: a.self(), Connections: a.Config().Run.Connections + slots.OwnConnections,
		Early: a.Config().Run.StartTolerance, Knows: a.has,
	})
	if err != nil {
		return err
	}
	view.Findings = append(view.Findings, found...)
	view.Queries = a.triedQueries(ctx)
	view.Findings = append(view.Findings, a.examineQueries(view.Queries)...)
	if unread == nil {
		health, err := a.examineHealth(ctx, db, setting)
		if err != nil {
			return err
		}
		view.Findings = append(view.Findings, health...)
		view.Findings = append(view.Findings, a.examineCrontabs(crontabs, setting)...)
	}
	return printDoctor(a, view)
}

// lookAtURL returns a finding that names the source of the database's URL.
func (a *App) lookAtURL() string {
	key := "database.url"
	of, _, _ := strings.Cut(a.scope.Store, "/")
	if own := "stores[" + of + "].url"; a.origin(own) != "default" {
		key = own
	}
	return fmt.Sprintf("check %s (%s)", key, a.origin(key))
}

// examineHealth returns the findings of status --check, and a width that commands would refuse.
func (a *App) examineHealth(ctx context.Context, db *sqlx.DB, setting pgsql.Setting) (list []doctor.Finding, err error) {
	if err := a.checkWidth(setting); err != nil {
		list = append(list, doctor.Finding{Name: "width", Severity: doctor.Action, What: err.Error(), Do: "until then every command that uses the schema ends with exit code 2"})
	}
	ledger, err := a.ledger(ctx, db)
	if err != nil {
		return nil, err
	}
	report, err := health.Check(ctx, ledger, time.Time{}, health.Limits{}, a.has)
	if pgsql.HasState(err, pqerror.InsufficientPrivilege) {
		return list, nil // the check of rights reports this
	}
	for _, f := range view.NewFindings(report.Findings, a.self()) {
		list = append(list, doctor.Finding{Name: f.Condition, Severity: doctor.Action, What: f.Text, Do: f.Remedy})
	}
	return list, err
}

// examineCrontabs checks whether cron runs slots as often as they begin. With several stores, cron
// may run those with wider slots more often. The lines that the crontab should have are the lines
// for all stores.
func (a *App) examineCrontabs(crontabs []doctor.Crontab, setting pgsql.Setting) []doctor.Finding {
	self := strings.TrimSuffix(a.self(), " --store "+a.scope.Store)
	found := doctor.Width(crontabs, setting.Grid.Width(), self)
	return slices.DeleteFunc(found, func(f doctor.Finding) bool { return a.scope.Store != "" && f.Severity == doctor.Note })
}

// examineSettings compares the settings with those that cron would see. systemd and Kubernetes give
// a process its environment, so it does nothing there.
func (a *App) examineSettings(ctx context.Context, view *doctorView, crontabs []doctor.Crontab) []doctor.Finding {
	var env []string
	for _, c := range crontabs {
		env = append(env, c.Env...)
	}
	var blind []doctor.Finding
	seen := a.config.Entries
	if os.Getenv("KUBERNETES_SERVICE_HOST") == "" && os.Getenv("INVOCATION_ID") == "" {
		var err error
		seen, err = doctor.CronSees(ctx, env)
		if blind = doctor.Blind(err); err != nil && blind == nil {
			a.log.WarnContext(ctx, "what cron would see is not known", "error", err)
			seen = a.config.Entries
		}
	}
	for _, e := range a.config.Entries {
		if e.Origin != "default" {
			cron := slices.ContainsFunc(seen, func(s config.Entry) bool { return s.Key == e.Key && s.Value == e.Value })
			view.Settings = append(view.Settings, settingView{e, cron})
		}
	}
	if blind != nil {
		return blind
	}
	return doctor.Environment(a.config.Entries, seen, crontabs)
}

// examineFile finds secrets that every user of this machine can read. No other user sees the files
// that Kubernetes mounts.
func (a *App) examineFile() []doctor.Finding {
	file, err := os.Stat(a.config.File)
	if err != nil || os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		return nil
	}
	return doctor.File(a.config.File, file.Mode(), a.config.Entries)
}

func printDoctor(a *App, view doctorView) error {
	view.OK = !slices.ContainsFunc(view.Findings, func(f doctor.Finding) bool { return f.Severity == doctor.Action })
	if view.Settings == nil {
		view.Settings = []settingView{}
	}
	if view.Findings == nil {
		view.Findings = []doctor.Finding{}
	}
	if view.Queries == nil {
		view.Queries = []queryView{}
	}
	if err := a.print(view, func() error { return printExamined(a, view) }); err != nil || view.OK {
		return err
	}
	return &ExitError{Code: Found}
}

func printExamined(a *App, view doctorView) error {
	var err error
	for _, f := range view.Findings {
		err = errors.Join(err, a.sentence(fmt.Sprintf("%s: %s: %s", f.Severity, f.Name, f.What)), a.lines(strings.Map(plain.Printable, "    "+f.Do)))
	}
	if len(view.Findings) == 0 {
		err = a.lines("nothing is wrong")
	}
	for _, q := range view.Queries {
		if q.Problem == "" {
			err = errors.Join(err, a.sentence(q.String()))
		}
	}
	if len(view.Settings) == 0 {
		return err
	}
	var rows []table.Row // pairs, so that nothing is cut
	for _, s := range view.Settings {
		seen := "cron sees it"
		if !s.Cron {
			seen = "cron does not see it"
		}
		rows = append(rows, table.Row{s.Key, fmt.Sprintf("%s (%s; %s)", s.Value, s.Origin, seen)})
	}
	return errors.Join(err, a.lines(""), a.table(nil, rows...))
}
