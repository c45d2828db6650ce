package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/doctor"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/jobs/egress"
	pgsql "github.com/prescient-go/prescient/sql"
)

func newConfigCheck(a *App) *cobra.Command {
	return overAll(a.withOutput(&cobra.Command{
		Use:   "check",
		Short: "Check that the settings fit the database, and that the queries of sql_jobs can run",
		Long: `Check that the settings are right, that slots.width is what the database says, that the directory of a file in events.to
exists, that events.allow has the private addresses of events.to and http_jobs, and that the queries of sql_jobs can run:
the server understands them, the role may be taken, the columns are those that are known. No query is run. Exits 3 when something is wrong.`,
		Example: `  prescient config check --config /etc/prescient/prescient.yaml`,
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := a.checkNames(a.registry); err != nil {
				return err
			}
			return a.over(c.Context(), checkConfig)
		},
	}))
}

// checkedView is the settings that were tried, as JSON.
type checkedView struct {
	Width   string      `json:"width"`  // the problem with slots.width; empty: none, or there is no database to ask
	Events  string      `json:"events"` // the problem with the directory or the address in events.to; empty: none
	Queries []queryView `json:"queries"`
	// Services has a text for each URL of http_jobs whose address events.allow forbids.
	Services []string `json:"services"`
}

// queryView is a query that was checked, as JSON.
type queryView struct {
	Job      string `json:"job"`
	Database string `json:"database"` // empty: that of the jobs
	Problem  string `json:"problem"`  // empty: none
}

func checkConfig(ctx context.Context, a *App) error {
	view := checkedView{Events: a.eventsProblem(), Queries: a.triedQueries(ctx), Services: a.forbiddenServices()}
	if err := a.tryWidth(ctx); err != nil {
		view.Width = err.Error()
	}
	var found error
	if view.Width != "" || view.Events != "" || len(broken(view.Queries)) > 0 || len(view.Services) > 0 {
		found = &ExitError{Code: Found}
	}
	return cmp.Or(a.print(view, func() error { return printChecked(a, view) }), found)
}

// tryWidth is what is wrong with slots.width, where that and a database are set.
func (a *App) tryWidth(ctx context.Context) error {
	if a.Config().Slots.Width == 0 || a.Config().Database.URL.Reveal() == "" {
		return nil
	}
	db, err := a.connect(ctx)
	if err != nil {
		return fmt.Errorf("slots.width cannot be compared with that of the database: %w", err)
	}
	defer func() { _ = a.closeDB(db) }()
	setting, err := a.setting(ctx, db)
	if errors.Is(err, pgsql.ErrNotMigrated) {
		return nil // it will be what migrate up makes, which nobody has to agree with yet
	}
	if err != nil {
		return fmt.Errorf("slots.width cannot be compared with that of the database: %w", err)
	}
	return a.checkWidth(setting)
}

// eventsProblem returns the problem with the file's directory or the address that events go to; empty: none, or they go
// elsewhere.
func (a *App) eventsProblem() string {
	to, err := url.Parse(a.Config().Events.To.Reveal())
	if err == nil && (to.Scheme == "http" || to.Scheme == "https") {
		return a.forbidden(fmt.Sprintf("events.to (%s)", a.origin("events.to")), to)
	}
	if err != nil || to.Scheme != "file" {
		return ""
	}
	dir := filepath.Dir(to.Path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Sprintf("events.to (%s) is a file in %s, which is no directory: no event is published until there is one that this user may write to",
			a.origin("events.to"), dir)
	}
	return ""
}

// forbidden says that events.allow forbids the address of a URL; empty: it does not, or the host is a name.
func (a *App) forbidden(what string, to *url.URL) string {
	if egress.CheckHost(to, a.Config().Events.Allow) == nil {
		return ""
	}
	return fmt.Sprintf("%s is at %s, a private or special address that events.allow does not have: nothing is sent there. Add the address to events.allow",
		what, to.Hostname())
}

// forbiddenServices has a text for each URL of http_jobs whose address events.allow forbids.
func (a *App) forbiddenServices() []string {
	texts := []string{}
	for _, job := range a.Config().HTTPJobs {
		to, err := url.Parse(job.URL.Reveal())
		if err != nil {
			continue // which the settings are refused for
		}
		if text := a.forbidden("the service of job "+job.Name, to); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// examineEvents finds a missing directory or a forbidden address of events.to, for doctor.
func (a *App) examineEvents() []doctor.Finding {
	problem := a.eventsProblem()
	if problem == "" {
		return nil
	}
	return []doctor.Finding{{Name: "events", Severity: doctor.Action, What: problem, Do: "create the directory, allow the address, or correct events.to"}}
}

// triedQueries tells of each query of sql_jobs whether it can run.
func (a *App) triedQueries(ctx context.Context) []queryView {
	queries, release := a.queries()
	defer release()
	views := []queryView{}
	for i, err := range checkQueries(ctx, queries) {
		job := a.Config().SQLJobs[i]
		view := queryView{Job: job.Name, Database: job.Database.String()}
		if err != nil {
			view.Problem = err.Error()
		}
		views = append(views, view)
	}
	return views
}

// broken is the queries that cannot run.
func broken(list []queryView) (views []queryView) {
	for _, q := range list {
		if q.Problem != "" {
			views = append(views, q)
		}
	}
	return views
}

// examineQueries is the queries that cannot run, for doctor.
func (a *App) examineQueries(ctx context.Context) (list []doctor.Finding) {
	for _, q := range broken(a.triedQueries(ctx)) {
		list = append(list, doctor.Finding{
			Name: "sql_jobs", Severity: doctor.Action, What: q.String(),
			Do: "its checks fail until then; mend the entry, and try it with: " + a.self() + " config check",
		})
	}
	return list
}

func (v queryView) String() string {
	text := fmt.Sprintf("job %s, on %s: ", v.Job, cmp.Or(v.Database, "the database of the jobs"))
	if v.Problem == "" {
		return text + "its query can run"
	}
	return text + strings.Map(plain.Printable, v.Problem)
}

func printChecked(a *App, view checkedView) error {
	var err error
	if view.Width != "" {
		err = a.sentence(view.Width)
	}
	if view.Events != "" {
		err = errors.Join(err, a.sentence(view.Events))
	}
	for _, q := range view.Queries {
		err = errors.Join(err, a.sentence(q.String()))
	}
	for _, text := range view.Services {
		err = errors.Join(err, a.sentence(text))
	}
	if view.Width == "" && view.Events == "" && len(view.Queries) == 0 && len(view.Services) == 0 {
		said := "the settings are right"
		if len(a.config.Warnings) > 0 {
			said = "the settings can be used, but look at the warnings of the log"
		}
		err = a.lines(said + "; there are no sql_jobs whose queries could be tried, and no slots.width to compare")
	}
	return err
}
