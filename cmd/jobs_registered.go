package cmd

import (
	"cmp"
	"context"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/jobs"
)

func newJobsRegistered(a *App) *cobra.Command {
	return a.withOutput(&cobra.Command{
		Use:     "registered",
		Short:   "List the jobs of this binary and of the settings, and their options; needs no database",
		Example: `  prescient jobs registered`,
		Args:    exactly(),
		RunE:    func(c *cobra.Command, _ []string) error { return listRegistered(c.Context(), a) },
	})
}

// definitionView is jobs.Definition as JSON.
type definitionView struct {
	Name        string        `json:"name"`
	From        string        `json:"from"` // go, http_jobs or sql_jobs
	MaxChecks   int           `json:"max_checks"`
	Timeout     duration.Text `json:"timeout"`
	Horizon     duration.Text `json:"horizon"`
	Retry       int           `json:"retry"`
	Deadline    duration.Text `json:"deadline"`    // 0s: none
	SLA         duration.Text `json:"sla"`         // 0s: none
	Within      duration.Text `json:"within"`      // 0s: the first slot
	Concurrency int           `json:"concurrency"` // 0: no limit of its own
	Misfire     jobs.Misfire  `json:"misfire"`
	LearnMin    duration.Text `json:"learn_min"`
	LearnMax    duration.Text `json:"learn_max"` // 0s: not learned
	LearnBy     string        `json:"learn_by"`
}

func listRegistered(ctx context.Context, a *App) error {
	from := map[string]string{}
	for _, job := range a.Config().HTTPJobs {
		from[job.Name] = "http_jobs"
	}
	for _, job := range a.Config().SQLJobs {
		from[job.Name] = "sql_jobs"
	}
	registry, release, err := a.definitions(ctx)
	if err != nil {
		return err
	}
	defer release()
	var views []definitionView
	for d := range registry.All() {
		views = append(views, definitionView{
			d.Name, cmp.Or(from[d.Name], "go"), d.MaxChecks, duration.Text(d.Timeout), duration.Text(d.Horizon), d.Retry,
			duration.Text(d.Deadline), duration.Text(d.SLA), duration.Text(d.Within), d.Concurrency, d.Misfire,
			duration.Text(d.LearnMin), duration.Text(d.LearnMax), d.LearnBy,
		})
	}
	header := table.Row{
		"NAME", "MAX CHECKS", "TIMEOUT", optional("HORIZON"), "RETRY", optional("DEADLINE"), "SLA", optional("WITHIN"), optional("CONCURRENCY"),
		optional("MISFIRE"), optional("LEARNED"), optional("FROM"),
	}
	return printList(a, views, header, func(v definitionView) table.Row {
		return table.Row{
			v.Name, v.MaxChecks, v.Timeout.String(), v.Horizon.String(), v.Retry, orNone(time.Duration(v.Deadline)), orNone(time.Duration(v.SLA)), orNone(time.Duration(v.Within)), v.Concurrency,
			string(v.Misfire), v.learned(), v.From,
		}
	})
}

// learned is how history chooses the next check, for a person.
func (v definitionView) learned() string {
	if v.LearnMax == 0 {
		return ""
	}
	text := config.Span{Min: time.Duration(v.LearnMin), Max: time.Duration(v.LearnMax)}.String()
	if v.LearnBy != "" {
		text += " by " + v.LearnBy
	}
	return text
}
