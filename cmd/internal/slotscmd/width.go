package slotscmd

import (
	"context"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/ledger"
)

func newCmdSetWidth(f *factory.Factory) *cobra.Command {
	return factory.Patient(f.WithOutput(&cobra.Command{
		Use:   "set-width WIDTH",
		Short: "Change the distance between two slots, and move waiting rows onto the new grid",
		Long: `Change the distance between two slots. Waiting rows that are off the new grid move to its
next slot, never to an earlier one. It is one transaction that blocks every enqueue, so it waits up
to 3 s for open transactions, and then fails and names the session of the oldest one. It is refused
while a slot is open or rows are due, including rows of paused jobs. Then change slots.width in the
configuration, if it is set, and install again what starts the runs: "install crontab --apply", or
the output of "install crontab", "install systemd" or "install kubernetes".`,
		Example: `  prescient slots set-width 5m`,
		Args:    cli.Exactly("WIDTH"),
		RunE: func(c *cobra.Command, args []string) error {
			width, err := duration.Parse(args[0])
			if err != nil {
				return exit.Usagef("width: %w", err)
			}
			g, err := grid.New(width)
			if err != nil {
				return exit.Usagef("%w", err)
			}
			return setWidth(c.Context(), f, g)
		},
	}))
}

func setWidth(ctx context.Context, f *factory.Factory, g grid.Grid) error {
	db, err := database.Connect(ctx, f)
	if err != nil {
		return err
	}
	setting, err := database.Setting(ctx, f, db)
	if err != nil {
		return err
	}
	ledger := ledger.Of(db, f.Schema(), setting, nil)
	before, err := ledger.Status(ctx, time.Time{})
	if err != nil {
		return err
	}
	moved, err := ledger.As(database.Actor()).SetWidth(ctx, g)
	if err != nil && database.CheckWidth(f, setting) != nil { // so that no other command works
		return fmt.Errorf("%w; while slots.width is another, put PRESCIENT_SLOTS_WIDTH=0s before the command", err)
	}
	if err != nil {
		return err
	}
	if before.Grid != g && len(before.Trouble) > 0 { // without rows, or it would have been refused
		f.Log().WarnContext(ctx, "slots that were missed are forgotten: the ledger starts over with the new width",
			"slots", int64(len(before.Trouble))+before.MoreMissed+before.MoreOpen, "from", before.Trouble[0].Slot)
	}
	if want := f.Config().Slots.Width; want != 0 && want != g.Width() {
		f.Log().WarnContext(ctx, "slots.width disagrees with the new width: correct it, or the next command refuses to work",
			"setting", duration.Text(want).String(), "origin", f.Origin("slots.width"))
	}
	view := widthView{duration.Text(g.Width()), moved}
	return f.Pairs(view, table.Row{"width", view.Width.String()}, table.Row{"rows moved", moved})
}

// widthView is a new grid as JSON.
type widthView struct {
	Width duration.Text `json:"width"` // the new one
	Moved int64         `json:"moved"` // rows that were off the new grid
}
