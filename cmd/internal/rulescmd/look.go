package rulescmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/internal/spoken"
)

func newCmdList(f *factory.Factory) *cobra.Command {
	return f.WithOutput(&cobra.Command{
		Use:   "list",
		Short: "List the rules that were applied",
		Long: `List the rules that were applied. A rule is broken if its table, one of its columns or one of
its triggers is gone. Then "doctor" says what to do.`,
		Example: `  prescient rules list`,
		Args:    cli.Exactly(),
		RunE:    func(c *cobra.Command, _ []string) error { return runList(c.Context(), f) },
	})
}

func runList(ctx context.Context, f *factory.Factory) error {
	return withStore(ctx, f, func(_ *sqlx.DB, store *rulestore.Store) error {
		list, err := store.List(ctx)
		if err != nil {
			return err
		}
		faults, err := store.Faults(ctx)
		if err != nil {
			return err
		}
		views := make([]view.Rule, len(list))
		for i, s := range list {
			views[i] = view.NewRule(s)
			broken := func(f rulestore.Fault) bool { return f.Rule == s.Rule.Name && f.Blind() }
			if s.State == rulestore.Active && slices.ContainsFunc(faults, broken) {
				views[i].State = "broken"
			}
		}
		header := table.Row{
			"NAME", "TABLE", "STEPS", "STATE", output.Droppable("VERSION"), output.Droppable("APPLIED"),
			output.Droppable("BY"),
		}
		return output.List(f.Printer, views, header, func(r view.Rule) table.Row {
			return table.Row{r.Name, r.Table, brief(r.Times()), r.Word(), r.Version, r.AppliedAt, r.AppliedBy}
		})
	})
}

type showOptions struct {
	f     *factory.Factory
	name  string
	since cli.Instant
}

func newCmdShow(f *factory.Factory) *cobra.Command {
	o := &showOptions{f: f}
	c := f.WithOutput(&cobra.Command{
		Use:   "show NAME",
		Short: "Show a rule, what waits for it, and what has fired",
		Long: `Show a rule, the rows that wait for its next step, what each step has fired, and how the
rows ended since --since: whether the expected thing had happened before any step, after a step, or
not at all. Dead letters are events that a step has fired, and that were given up because their
destination refused them. "events dead" lists them.`,
		Example: `  prescient rules show order.unshipped
  prescient rules show order.unshipped --since 30d --output json | jq .ended`,
		Args: cli.Exactly("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			o.name = args[0]
			return runShow(c.Context(), o)
		},
	})
	cli.SinceVar(c.Flags(), &o.since, "since", "count the rows that ended since then; default: 7 days ago")
	return c
}

// lookBack is the default of --since.
const lookBack = 7 * 24 * time.Hour

func runShow(ctx context.Context, o *showOptions) error {
	return withDB(ctx, o.f, func(_ *sqlx.DB, store *rulestore.Store, now time.Time) error {
		status, err := store.Get(ctx, o.name)
		if err != nil {
			return missing(ctx, store, o.name, err)
		}
		since := now.Add(-lookBack)
		if o.since.Given() {
			since = o.since.From(now)
		}
		sum, err := store.Summary(ctx, o.name, since)
		if err != nil {
			return err
		}
		fired, err := store.Fired(ctx, o.name)
		if err != nil {
			return err
		}
		v := view.NewRuleDetail(status, fired, sum)
		return o.f.Print(v, func() error { return printShown(o.f.Printer, v) })
	})
}

func printShown(p *output.Printer, v view.RuleDetail) error {
	rows := []table.Row{{"rule", v.Name}, {"state", v.Word()}}
	for _, o := range v.Options() {
		rows = append(rows, table.Row{o.Name, o.Value})
	}
	waiting := fmt.Sprint(v.Summary.Waiting)
	if v.Summary.Estimated {
		waiting = "about " + waiting
	}
	rows = append(rows, table.Row{"version", v.Version}, table.Row{"applied", v.AppliedAt},
		table.Row{"waiting", waiting}, table.Row{"next slot", v.Summary.NextSlot})
	e := v.Summary.Ended
	ended := fmt.Sprintf("since %s: %d in time, %d after a step, %d open after the last step, "+
		"%d deleted or outside of the rule, %d cancelled, %d failed",
		spoken.Instant(v.Summary.Since), e.Met, e.MetLate, e.Open, e.LeftOut, e.Cancelled, e.Failed)
	acts := v.Acts()
	steps := make([]table.Row, len(acts))
	for i, s := range acts {
		var fired view.FiredStep
		var last *time.Time
		if n := slices.IndexFunc(v.Fired, func(f view.FiredStep) bool { return f.Step == s.Name }); n >= 0 {
			fired, last = v.Fired[n], &v.Fired[n].LastAt
		}
		steps[i] = table.Row{s.Name, brief(s.When), brief(s.Does()), fired.Fired, fired.DeadLetters, last}
	}
	header := table.Row{"STEP", "WHEN", "DOES", "FIRED", output.Droppable("DEAD LETTERS"), output.Droppable("LAST")}
	return errors.Join(p.Table(nil, append(rows, table.Row{"ended", ended})...), p.Lines(""), p.Table(header, steps...))
}

// maxWhen is the longest time of a step in a table, in characters. That of an interval may have a query.
const maxWhen = 50

// brief shortens the time of a step for a table.
func brief(when string) string {
	when = strings.Join(strings.Fields(when), " ")
	if runes := []rune(when); len(runes) > maxWhen {
		return string(runes[:maxWhen-3]) + "..."
	}
	return when
}
