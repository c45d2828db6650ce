package jobscmd

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/internal/defaults"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
)

func newCmdRegistered(f *factory.Factory) *cobra.Command {
	return f.WithOutput(&cobra.Command{
		Use:   "registered",
		Short: "List the jobs of this binary and of the settings, and their options; needs no database",
		Long: `List the jobs of this binary and of the settings, and their options; needs no database.

The job of a rule is in the database instead; see "rules list".`,
		Example: `  prescient jobs registered`,
		Args:    cli.Exactly(),
		RunE:    func(*cobra.Command, []string) error { return listRegistered(f) },
	})
}

// definitionView is jobs.Definition as JSON.
type definitionView struct {
	Name        string        `json:"name"`
	From        string        `json:"from"`         // go, http_jobs or sql_jobs
	Group       string        `json:"group"`        // the family of a job that is checked by group; empty: it is not
	MaxChecks   int           `json:"max_checks"`   // checks of a row that do not fail, at most
	Timeout     duration.Text `json:"timeout"`      // of one check
	Horizon     duration.Text `json:"horizon"`      // how far ahead a next check may be
	Retry       int           `json:"retry"`        // errors in a row that are tried again; one more gives the row up
	MaxBackOff  int           `json:"max_back_off"` // the longest pause after an error, in slots
	Deadline    duration.Text `json:"deadline"`     // 0s: none
	SLA         duration.Text `json:"sla"`          // how late a check may begin; 0s: no SLA
	Within      duration.Text `json:"within"`       // 0s: the first slot
	BatchSize   int           `json:"batch_size"`   // rows of one call at most; 0: a page
	Concurrency int           `json:"concurrency"`  // 0: no limit of its own
	AtMost      int           `json:"at_most"`      // 0: no limit
	PerSecond   int           `json:"per_second"`   // 0: no limit
	LimitByKey  bool          `json:"limit_by_key"` // at_most and per_second hold for each key
	Priority    int           `json:"priority"`     // jobs of a higher one are checked first
	OwnPool     bool          `json:"own_pool"`     // its checks use connections of their own pool
	// what catch-up does: run, defer, skip or, of a periodic function, each
	Misfire jobs.Misfire `json:"misfire"`
	Crontab string       `json:"crontab"` // of a periodic function; empty: the job has no crontab
	Zone    string       `json:"zone"`    // of the crontab; empty: the one that it names, or UTC
}

func listRegistered(f *factory.Factory) error {
	from := map[string]string{}
	for _, job := range f.Config().HTTPJobs {
		from[job.Name] = "http_jobs"
	}
	for _, job := range f.Config().SQLJobs {
		from[job.Name] = "sql_jobs"
	}
	registry, release, err := checks.Definitions(f)
	if err != nil {
		return err
	}
	defer release()
	var views []definitionView
	for d := range registry.All() {
		views = append(views, newDefinitionView(d, cmp.Or(from[d.Name], "go")))
	}
	header := table.Row{
		"NAME", "MAX CHECKS", "TIMEOUT", output.Droppable("HORIZON"), "RETRY", output.Droppable("DEADLINE"), "SLA",
		output.Droppable("WITHIN"), output.Droppable("CONCURRENCY"),
		output.Droppable("MISFIRE"), output.Droppable("FROM"), output.Droppable("OPTIONS"),
	}
	err = output.List(f.Printer, views, header, func(v definitionView) table.Row {
		return table.Row{
			v.Name, v.MaxChecks, v.Timeout.String(), v.Horizon.String(), v.Retry, output.OrNone(time.Duration(v.Deadline)),
			output.OrNone(time.Duration(v.SLA)), output.OrNone(time.Duration(v.Within)), v.Concurrency, string(v.Misfire),
			v.From, v.options(),
		}
	})
	if !f.IsJSON() {
		err = errors.Join(err, f.Lines("", "Each rule of the database is a job, too: "+f.Self()+" rules list"))
	}
	return err
}

// newDefinitionView returns a definition with every option of it.
func newDefinitionView(d *jobs.Definition, from string) definitionView {
	return definitionView{
		Name: d.Name, From: from, Group: d.Group, MaxChecks: d.MaxChecks, Timeout: duration.Text(d.Timeout),
		Horizon: duration.Text(d.Horizon), Retry: d.Retry, MaxBackOff: d.MaxBackOff, Deadline: duration.Text(d.Deadline),
		SLA: duration.Text(d.SLA), Within: duration.Text(d.Within), BatchSize: d.BatchSize, Concurrency: d.Concurrency,
		AtMost: d.AtMost, PerSecond: d.PerSecond, LimitByKey: d.LimitBy != nil, Priority: d.Priority,
		OwnPool: d.DB != nil, Misfire: d.Misfire, Crontab: d.Crontab, Zone: d.Zone,
	}
}

// options returns the options that have no column of their own and differ from the defaults, for a person.
func (v definitionView) options() string {
	var list []string
	add := func(given bool, format string, args ...any) {
		if given {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	each := ""
	if v.LimitByKey {
		each = " for each key"
	}
	add(v.Crontab != "", "crontab %q", v.Crontab)
	add(v.Zone != "", "zone %s", v.Zone)
	add(v.Group != "", "group %s", v.Group)
	add(v.MaxBackOff != defaults.MaxBackOff, "back-off up to %s", spoken.Count(v.MaxBackOff, "slot", "slots"))
	add(v.BatchSize > 0, "batches of %d", v.BatchSize)
	add(v.AtMost > 0, "at most %d%s", v.AtMost, each)
	add(v.PerSecond > 0, "%d per second%s", v.PerSecond, each)
	add(v.Priority != 0, "priority %d", v.Priority)
	add(v.OwnPool, "own pool")
	return strings.Join(list, ", ")
}
