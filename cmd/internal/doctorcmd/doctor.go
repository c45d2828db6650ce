// Package doctorcmd has the command that finds problems: doctor.
package doctorcmd

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

	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/doctor"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/install"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/health"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

// NewCmdDoctor returns the command doctor.
func NewCmdDoctor(f *factory.Factory) *cobra.Command {
	return factory.OnStores(f.WithOutput(&cobra.Command{
		Use:   "doctor",
		Short: "Find problems before they hurt, and print how to fix them",
		Long: `Find problems before they hurt:

  settings   settings that cron would not see, secrets that every user can read, a configuration file that another user
             may have written, a slots.width other than the database's, a missing directory of events.destination,
             private addresses that events.allowed_networks lacks, a crontab that does not fit the slots, or whose user
             cannot read the configuration file
  database   a server that is not PostgreSQL, missing rights, row security on prescient's tables, a changed collation, a
             wrong clock, too few connections, transactions that hold back vacuum, tables full of dead rows, missing
             months of history, a schema of another version, two stores that are one schema
  jobs       queries of sql_jobs that cannot run, jobs that this binary does not have, periodic functions whose row
             waits by another crontab
  rules      triggers that are gone or disabled, or that make writes to a table fail, rights that the checks lack if
             this login runs the slots
  slots      all that "status --check" finds

Each finding comes with the command that fixes it. The command exits 3 if a finding needs action. It changes nothing and
runs no query of sql_jobs. The server plans each query as its role, tests the rights to what the query names, and
describes its columns.

Like every other command, it names the session that holds a lock if it has waited for the lock for some seconds.`,
		Example: `  prescient doctor
  prescient doctor --output json | jq -r '.findings[].do'`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checks.CheckNames(f, f.Registry); err != nil {
				return err
			}
			var ids map[string]string
			if f.Many() {
				ids = database.IDs(c.Context(), f)
			}
			return database.Look(c.Context(), f, func(ctx context.Context, f *factory.Factory) error {
				return examine(ctx, f, ids)
			})
		},
	}))
}

// doctorView has the findings of doctor, as JSON.
type doctorView struct {
	OK       bool             `json:"ok"`       // nothing needs action
	Settings []settingView    `json:"settings"` // without defaults
	Findings []doctor.Finding `json:"findings"`
	Queries  []checks.Tried   `json:"queries"` // of sql_jobs, as far as they were tried
	// LastRun is the run that did something last. Null: none did, or the database could not be read.
	LastRun  *ledger.LastRun `json:"last_run"`
	NextSlot *time.Time      `json:"next_slot"` // the slot that begins next; UTC; null: the database could not be read

	status *view.Status // nil: the database could not be read
}

// settingView is a setting that is not the default.
type settingView struct {
	config.Entry
	Cron bool `json:"cron"` // cron sees it, too
}

// forget takes back that cron sees the settings, if a user of cron cannot read them.
func (v *doctorView) forget(unread []doctor.Finding) {
	for i := range v.Settings {
		v.Settings[i].Cron = v.Settings[i].Cron && len(unread) == 0
	}
}

// examine prints the findings about a store. ids are those of all stores, by name; nil: there is one store.
func examine(ctx context.Context, f *factory.Factory, ids map[string]string) error {
	var v doctorView
	crontabs := doctor.Crontabs(ctx, f.Name)
	if !f.Store().Repeats { // findings about this machine
		v.Findings = append(examineSettings(ctx, f, &v, crontabs), doctor.Skipped(f.Loaded().Skipped)...)
		unread := doctor.Users(crontabs, factory.UsualConfig)
		v.forget(unread)
		v.Findings = append(v.Findings, unread...)
		v.Findings = append(v.Findings, examineFile(f)...)
		v.Findings = append(v.Findings, doctor.Unencrypted(f.Config())...)
		v.Findings = append(v.Findings, examineEvents(ctx, f)...)
	}
	db, err := database.Connect(ctx, f)
	if bad, ok := errors.AsType[*exit.Error](err); ok && bad.Code == exit.Usage || err != nil && ctx.Err() != nil {
		if len(v.Findings) == 0 {
			return err
		}
		if found := printDoctor(f, v); exit.CodeOf(found) == exit.Failure {
			return found
		}
		return err // not a finding: without a database the rest is unknown
	}
	if err != nil {
		v.Findings = append(v.Findings, doctor.ToDo("database", spoken.Error(err.Error()), lookAtURL(f, err)))
		return printDoctor(f, v)
	}
	setting, unread := database.Setting(ctx, f, db) // migrates the private one, as every command does
	var sick []doctor.Finding
	told := map[string]bool{} // jobs that a finding of status is about
	if unread == nil {
		if sick, v.status, err = examineHealth(ctx, f, db, setting, told); err != nil {
			return err
		}
		sick = append(sick, examineCrontabs(f, crontabs, setting)...)
		sick = append(sick, examineStores(f, ids)...)
	}
	found, err := doctor.Examine(ctx, doctor.Config{
		DB: db, Schema: f.Schema(), Name: f.Self(), Connections: f.Config().Run.Connections + slots.OwnConnections,
		Early: f.Config().Run.StartTolerance, Knows: func(job string) bool { return told[job] || checks.Has(f, job) },
		Jobs: checks.Names(f), Registry: f.Registry,
	})
	if err != nil {
		return err
	}
	v.Findings = append(v.Findings, found...)
	v.Queries = checks.TryQueries(ctx, f)
	v.Findings = append(v.Findings, examineQueries(f, v.Queries)...)
	v.Findings = append(v.Findings, sick...)
	return printDoctor(f, v)
}

// lookAtURL says what to do about a database that cannot be reached, or that refuses the login. It names the source of
// the database's URL.
func lookAtURL(f *factory.Factory, err error) string {
	key := "database.url"
	of, _, _ := strings.Cut(f.Store().Name, "/")
	if own := "stores[" + of + "].url"; f.Origin(own) != "default" {
		key = own
	}
	if pg.HasState(err, pqerror.InvalidPassword) || pg.HasState(err, pqerror.InvalidAuthorizationSpecification) {
		return fmt.Sprintf("the server runs, and refuses the name or the password of the login: correct %s (%s), or "+
			"PGPASSWORD or ~/.pgpass if the URL has no password", key, f.Origin(key))
	}
	if pg.HasState(err, pqerror.InvalidCatalogName) {
		return fmt.Sprintf("the server runs, and has no such database: create it, or correct %s (%s)", key, f.Origin(key))
	}
	return fmt.Sprintf("is the server running? If it is, check %s (%s)", key, f.Origin(key))
}

// examineHealth returns the findings of status --check, and a width that commands would refuse. It returns the status
// itself, or nil if the login may not read it. It adds to told the jobs that no run knows, if a finding is about them.
func examineHealth(
	ctx context.Context, f *factory.Factory, db *sqlx.DB, setting pgsql.Setting, told map[string]bool,
) (list []doctor.Finding, status *view.Status, err error) {
	if err := database.CheckWidth(f, setting); err != nil {
		list = append(list, doctor.ToDo("width", err.Error(),
			"until then every command that uses the schema ends with exit code 2"))
	}
	l := ledger.Of(db, f.Schema(), setting, nil)
	knows, err := checks.Knows(ctx, f, l)
	if err != nil {
		return list, nil, err
	}
	report, err := health.Check(ctx, l, time.Time{}, health.Thresholds{}, knows)
	if pg.HasState(err, pqerror.InsufficientPrivilege) {
		return list, nil, nil // the check of rights reports this
	}
	if err != nil {
		return list, nil, err
	}
	v := view.NewStatus(report, nil, f.Self(), knows)
	for _, found := range v.Findings {
		list = append(list, doctor.ToDo(found.Condition, found.Text, found.Remedy))
		for _, j := range report.Jobs {
			told[j.JobExec] = told[j.JobExec] || found.Condition == "unserved" && j.Unserved
		}
	}
	return list, &v, nil
}

// examineCrontabs checks whether cron runs slots as often as they begin. With several stores, cron
// may run those with wider slots more often. The lines that the crontab should have are the lines
// for all stores.
func examineCrontabs(f *factory.Factory, crontabs []doctor.Crontab, setting pgsql.Setting) []doctor.Finding {
	self := strings.TrimSuffix(f.Self(), " --store "+f.Store().Name)
	local, err := install.MachineZone()
	if err != nil {
		local = time.UTC
	}
	found := doctor.Width(crontabs, setting.Grid.Width(), local, self)
	return slices.DeleteFunc(found, func(found doctor.Finding) bool {
		return f.Store().Name != "" && found.Severity == doctor.Note
	})
}

// examineSettings compares the settings with those that cron would see. systemd and Kubernetes give
// a process its environment, so it does nothing there.
func examineSettings(
	ctx context.Context, f *factory.Factory, view *doctorView, crontabs []doctor.Crontab,
) []doctor.Finding {
	var env []string
	for _, c := range crontabs {
		env = append(env, c.Env...)
	}
	var blind []doctor.Finding
	seen := f.Loaded().Entries
	if os.Getenv("KUBERNETES_SERVICE_HOST") == "" && os.Getenv("INVOCATION_ID") == "" {
		var err error
		seen, err = doctor.CronSees(ctx, env)
		if blind = doctor.Blind(err); err != nil && blind == nil {
			f.Log().WarnContext(ctx, "what cron would see is not known", "error", err)
			seen = f.Loaded().Entries
		}
	}
	for _, e := range f.Loaded().Entries {
		if e.Origin != "default" {
			cron := slices.ContainsFunc(seen, func(s config.Entry) bool { return s.Key == e.Key && s.Value == e.Value })
			view.Settings = append(view.Settings, settingView{e, cron})
		}
	}
	if blind != nil {
		return blind
	}
	return doctor.Environment(f.Loaded().Entries, seen, crontabs, f.Self())
}

// examineFile finds secrets that every user of this machine can read. No other user sees the files
// that Kubernetes mounts.
func examineFile(f *factory.Factory) []doctor.Finding {
	file, err := os.Stat(f.Loaded().File)
	if err != nil || os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		return nil
	}
	return doctor.File(f.Loaded().File, file.Mode(), f.Loaded().Entries)
}

// printDoctor prints the findings: actions before notes.
func printDoctor(f *factory.Factory, view doctorView) error {
	slices.SortStableFunc(view.Findings, func(a, b doctor.Finding) int { return rank(a) - rank(b) })
	view.OK = !slices.ContainsFunc(view.Findings, func(found doctor.Finding) bool {
		return found.Severity == doctor.Action
	})
	view.Settings = append([]settingView{}, view.Settings...) // in JSON empty lists, not null
	view.Findings, view.Queries = append([]doctor.Finding{}, view.Findings...), append([]checks.Tried{}, view.Queries...)
	if view.status != nil {
		view.LastRun, view.NextSlot = view.status.LastRun, &view.status.NextSlot
	}
	if err := f.Print(view, func() error { return printExamined(f, view) }); err != nil || view.OK {
		return err
	}
	return &exit.Error{Code: exit.Found}
}

// rank orders findings: what needs an operator comes first.
func rank(found doctor.Finding) int {
	if found.Severity == doctor.Action {
		return 0
	}
	return 1
}

func printExamined(f *factory.Factory, view doctorView) error {
	var err error
	for _, found := range view.Findings {
		err = errors.Join(err, f.Sentence(fmt.Sprintf("%s: %s: %s", found.Severity, found.Name, found.What)),
			f.Lines(strings.Map(plain.Printable, "    "+found.Do)))
	}
	if len(view.Findings) == 0 {
		err = f.Lines("nothing is wrong")
	}
	for _, q := range view.Queries {
		if q.Problem == "" {
			err = errors.Join(err, f.Sentence(q.String()))
		}
	}
	if s := view.status; s != nil {
		err = errors.Join(err, f.Sentence("the last run: "+s.Last()), f.Sentence("the current slot: "+s.Current()),
			f.Sentence("the next slot is due at "+spoken.Since(s.NextSlot, s.Now)))
	}
	if len(view.Settings) == 0 {
		return err
	}
	var rows []table.Row // pairs, so that nothing is cut
	for _, s := range view.Settings {
		// The url of a receiver has its name in its key. A store may have a name alone.
		if strings.HasPrefix(s.Key, "receivers[") && strings.HasSuffix(s.Key, "].name") {
			continue
		}
		seen := "cron sees it"
		if !s.Cron {
			seen = "cron does not see it"
		}
		rows = append(rows, table.Row{s.Key, fmt.Sprintf("%s (%s; %s)", short(s.Value), s.Origin, seen)})
	}
	return errors.Join(err, f.Lines(""), f.Table(nil, rows...))
}

// shortValue is how many runes of a value doctor prints: a query may have pages. "config show" and
// -o json have all of it.
const shortValue = 120

// short returns the beginning of a value in one line.
func short(value string) string {
	value = strings.Join(strings.Fields(value), " ")
	if runes := []rune(value); len(runes) > shortValue {
		value = string(runes[:shortValue]) + "..."
	}
	return value
}
