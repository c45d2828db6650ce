package plancmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/advise"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/internal/spoken"
)

type adviseOptions struct {
	job, by string
	limit   cli.Count
}

func newCmdAdvise(f *factory.Factory) *cobra.Command {
	var o adviseOptions
	c := factory.OnStores(f.WithOutput(&cobra.Command{
		Use:   "advise",
		Short: "Show how many checks found nothing, and advise better intervals",
		Long: `Show for each job how many checks found nothing, when its rows were really finished, and which delays
before the first and the next checks would halve the checks. It reads history: a row was finished between the last
check that found nothing and the check that ended it. DELAY is the average time from when a row was finished to the
check that ended it.

The command changes nothing: return the interval that you choose from the job's function.
docs/forecast.md has an example.`,
		Example: `  prescient plan advise
  prescient plan advise --job order.unshipped --by carrier`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if o.by != "" && o.job == "" {
				return exit.Usagef("--by divides the rows of one job: also give --job")
			}
			return database.Each(c.Context(), f, o.run)
		},
	}))
	cli.WordVar(c.Flags(), &o.job, "job", "only this `JOB`")
	c.Flags().StringVar(&o.by, "by", "", "a `FIELD` of the payload that divides the rows of a job, such as carrier")
	cli.CountVar(c.Flags(), &o.limit, "limit", advise.DefaultRows,
		"maximum number of rows of history to read, the newest first")
	return c
}

// advisedView has the advice and the number of rows that it follows from.
type advisedView struct {
	Read int64           `json:"read"` // rows of history
	Jobs []advise.Advice `json:"jobs"`
}

func (o adviseOptions) run(ctx context.Context, f *factory.Factory) error {
	return perform.With(ctx, f, func(s *action.Store) error {
		if err := checks.Require(ctx, f, s.DB, s.Client, o.job); err != nil {
			return err
		}
		bounds := advise.Bounds{Rows: int64(o.limit), Time: time.Minute}
		list, read, err := advise.Advise(ctx, s.DB, s.Schema, advise.Options{Job: o.job, By: o.by, Bounds: bounds},
			s.Ledger.Grid().Width())
		if err != nil {
			return err
		}
		if o.by != "" && !slices.ContainsFunc(list, func(l advise.Advice) bool { return l.Class != "" }) {
			f.Log().WarnContext(ctx, "no class has enough rows: is the name of the field right?", "job", o.job, "by", o.by,
				"rows", advise.MinRows)
		}
		told := advisedView{Read: read, Jobs: append([]advise.Advice{}, list...)}
		return f.Print(told, func() error { return printAdvice(f, told) })
	})
}

func printAdvice(f *factory.Factory, told advisedView) error {
	rows := []table.Row{}
	for _, v := range told.Jobs {
		rows = append(rows, table.Row{
			v.Job, v.Class, v.Rows, v.Checks, partOf(v.FoundNothing, v.Checks), orDash(v.HalfBy), orDash(v.MostBy),
			fmt.Sprintf("%.1f", v.Past.Checks), v.Past.Delay,
		})
	}
	header := table.Row{
		"JOB", output.Droppable("CLASS"), output.Droppable("ROWS"), "CHECKS", "FOUND NOTHING", "HALF DONE BY",
		output.Droppable("90 % BY"), "CHECKS A ROW", output.Droppable("DELAY"),
	}
	if err := f.Table(header, rows...); err != nil {
		return err
	}
	var lines []string
	for _, v := range told.Jobs {
		lines = append(lines, "", strings.Map(plain.Printable, view.Advice(&v)))
		lines = append(lines, plot(&v)...)
	}
	return f.Lines(append(lines, "",
		spoken.Count(told.Read, "row", "rows")+" of history "+spoken.Noun(told.Read, "was", "were")+" read.")...)
}

func partOf(part, of int64) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%d (%d %%)", part, 100*part/of)
}

func orDash(d *duration.Text) any {
	if d == nil {
		return "-"
	}
	return *d
}

const (
	plotLines = 10
	plotWidth = 40
)

// plot returns a bar of the open rows, from age 0 to the age at which hardly any row is open. It is
// empty if no check found nothing, or too little is known.
func plot(a *advise.Advice) (lines []string) {
	if len(a.Points) == 0 || a.FoundNothing == 0 {
		return nil
	}
	end := time.Duration(a.Points[len(a.Points)-1].Age)
	if hardly := a.At(0.02); hardly != nil {
		end = time.Duration(*hardly)
	}
	exact := time.Second
	if end > 10*time.Hour {
		exact = time.Minute
	}
	lines = append(lines, fmt.Sprintf("%10s  %s", "age", "still open"))
	for i := range plotLines + 1 {
		age := end / plotLines * time.Duration(i)
		open := a.OpenAt(age)
		bar := strings.Repeat("█", int(open*plotWidth+0.5))
		lines = append(lines,
			strings.TrimRight(fmt.Sprintf("%10s %4.0f %%  %s", spoken.Exact(age.Round(exact)), 100*open, bar), " "))
	}
	return lines
}
