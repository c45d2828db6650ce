package jobscmd

import (
	"context"
	"errors"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs/admin"
)

type pruneOptions struct {
	keep   time.Duration
	dryRun bool
}

func newCmdPrune(f *factory.Factory, runF factory.Run[pruneOptions]) *cobra.Command {
	var o pruneOptions
	c := f.WithOutput(&cobra.Command{
		Use:   "prune",
		Short: "Drop the months of history, and forget the slots, that are old",
		Long: `Drop the months (UTC) of history that ended longer ago than --keep. Also delete the records of what operators
did (table action), and what rules have fired (table rule_fired) for keys that neither wait nor can be retried. The
numbers of rows in months come from the table statistics.

Also delete the ledger rows of slots that are older than --keep, up to the first slot that was missed, is not done or
has rows, such as of a paused job: from that slot on, all stay.

While a dump or a long query reads history, the command gives up after a few seconds and drops nothing.`,
		Example: `  prescient jobs prune --keep 90d --dry-run
  prescient jobs prune  # keeps history.retention`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("keep") {
				o.keep = f.Config().History.Retention
			}
			return runF(c.Context(), f, o)
		},
	})
	duration.Var(c.Flags(), &o.keep, "keep", 0,
		"how long to keep what ended; default: history.retention of the configuration")
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "only print what would be dropped")
	return factory.Patient(c)
}

// prunedView counts what was dropped, as JSON.
type prunedView struct {
	DryRun bool `json:"dry_run"`
	// what ended before this instant (UTC) is dropped; null: nothing is to be pruned
	Before     *time.Time              `json:"before"`
	Partitions []admin.PrunedPartition `json:"partitions"` // what was dropped or, with --dry-run, would be
	// rows of the ledger that were deleted; null: none were looked for
	Slots *int64 `json:"slots"`
}

func pruneHistory(ctx context.Context, f *factory.Factory, o pruneOptions) error {
	view := prunedView{DryRun: o.dryRun, Partitions: []admin.PrunedPartition{}}
	if o.keep == 0 {
		f.Log().InfoContext(ctx, "history is kept for ever: to prune it set history.retention, such as 90d, or give --keep")
		return printPruned(f, view)
	}
	err := perform.With(ctx, f, func(s *action.Store) error {
		before := s.Ledger.Now().Add(-o.keep).UTC()
		view.Before = &before
		prune := admin.New(s.Client).Prune
		if o.dryRun {
			prune = admin.New(s.Client).PreviewPrune
		}
		pruned, err := prune(ctx, s.DB, before)
		view.Partitions = append(view.Partitions, pruned...)
		if err != nil || o.dryRun {
			return err
		}
		forgotten, err := s.Ledger.Prune(ctx, before)
		view.Slots = &forgotten
		return err
	})
	if err != nil && len(view.Partitions) == 0 {
		return err
	}
	return errors.Join(err, printPruned(f, view)) // what is dropped stays dropped
}

func printPruned(f *factory.Factory, view prunedView) error {
	return f.Print(view, func() error {
		rows := seq.Map(view.Partitions, func(p admin.PrunedPartition) table.Row { return table.Row{p.Partition, p.Rows} })
		if view.Slots != nil {
			rows = append(rows, table.Row{"slots", *view.Slots})
		}
		did := "DROPPED"
		if view.DryRun {
			did = "TO BE DROPPED"
		}
		return f.Table(table.Row{did, "ROWS"}, rows...)
	})
}
