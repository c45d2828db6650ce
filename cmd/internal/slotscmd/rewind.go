package slotscmd

import (
	"context"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/internal/reserved"
)

func newCmdRewind(f *factory.Factory) *cobra.Command {
	return f.WithOutput(&cobra.Command{
		Use:   "rewind",
		Short: "Take back what was written while the clock was ahead",
		Long: `Take back what was written while the clock of the database was ahead. Correct the clock first.

The ledger forgets the slots that lie beyond the clock. Otherwise runs find them done when they begin. It keeps a slot
that a runner works on. A ledger that begins beyond the clock begins with the current slot. Schedules that were
published or changed then go on with the first instant after now, as by "schedules resume". Events that they published
ahead of their instants are published again, with the same ids. Periodic functions whose rows were written or moved then
wait for the first instant after now, too. They are called again for the instants that they were called for too early.`,
		Example: `  prescient slots rewind`,
		Args:    cli.Exactly(),
		RunE:    func(c *cobra.Command, _ []string) error { return rewind(c.Context(), f) },
	})
}

// rewoundView counts what was set back, as JSON.
type rewoundView struct {
	Slots     int64 `json:"slots"`     // removed from the ledger
	Schedules int   `json:"schedules"` // set back to now
	Periodic  int   `json:"periodic"`  // rows of periodic functions, of all binaries, set back to now
}

func rewind(ctx context.Context, f *factory.Factory) error {
	return perform.With(ctx, f, func(s *action.Store) (err error) {
		var view rewoundView
		// The ledger last, because it shows that there is something to rewind.
		if view.Schedules, err = s.Schedules.Rewind(ctx, s.DB); err == nil {
			view.Periodic, err = s.Client.RewindPeriodic(reserved.Caller{}, ctx, s.DB)
		}
		if err == nil {
			view.Slots, err = s.Ledger.Rewind(ctx)
		}
		if err != nil {
			return err
		}
		return f.Pairs(view, table.Row{"slots forgotten", view.Slots}, table.Row{"schedules rewound", view.Schedules},
			table.Row{"periodic functions rewound", view.Periodic})
	})
}
