package cmd

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/spool"
)

func newSpool(a *App) *cobra.Command {
	var width time.Duration
	c := group("spool", "Run executables from a directory for each slot, without a database",
		newSpoolAdd(a, &width), newSpoolRun(a, &width), newSpoolCatchUp(a, &width), newSpoolList(a, &width))
	c.Long = `Run executables from a directory for each slot, without a database. DIR/2603011315 is the slot of
2026-03-01T13:15:00Z, and "spool run" at that time starts every executable in it. How one exits decides what becomes
of it:

  0              finished: it moves to DIR/history/2603011315, with its output and a result.json
  75             it moves to the next slot
  anything else  it is tried again 1, 2, 4 ... slots later, and after 6 errors in a row moves to history as failed

A line "next: 2026-03-01T14:00:00Z" on its stdout, with exit status 0 or 75, asks for the slot at or after that time.
An executable is told PRESCIENT_SLOT, PRESCIENT_NAME, PRESCIENT_CHECK_COUNT, PRESCIENT_ERROR_COUNT,
PRESCIENT_CAUGHT_UP and PRESCIENT_SPOOL_DIR in its environment; stdin is empty.`
	fs := c.PersistentFlags()
	config.SpoolFlags(fs)
	duration.Var(fs, &width, "width", 0,
		"distance between two slots, whole minutes; default: slots.width of the configuration, else 15m")
	return c
}

// openSpool opens the spool that the flags and the settings name.
func (a *App) openSpool(width time.Duration) (*spool.Spool, error) {
	cfg := a.Config()
	if cfg.Spool.Dir == "" {
		return nil, usagef("no directory: say where the spool is, with --dir DIRECTORY or spool.dir in the configuration")
	}
	width = cmp.Or(width, cfg.Slots.Width, grid.DefaultWidth)
	g, err := grid.New(width)
	if err != nil || width%time.Minute != 0 {
		return nil, usagef("width %s: must be whole minutes that divide 24h, such as 1m, 15m or 1h", duration.Text(width))
	}
	return spool.Open(spool.Config{
		Dir: cfg.Spool.Dir, Grid: g, Workers: cfg.Run.Workers, Grace: none(cfg.Run.Grace), Early: none(cfg.Run.Early), Logger: a.log,
	})
}

func newSpoolRun(a *App, width *time.Duration) *cobra.Command {
	var slot instant
	c := a.verboseFlag(a.withOutput(&cobra.Command{
		Use:   "run",
		Short: "Run the executables of one slot",
		Long: `Run the executables of one slot: the one that has begun last, or the one that --slot or the name of a
Kubernetes Job stands for. A slot that another run is at is left to it, with exit code 0. Started up to --early before
a boundary, it waits for the boundary.

It writes nothing to stdout, unless asked for JSON. The log has a line of what was done, where it goes to a terminal or
--verbose or --log-level asks for it; and in any case a warning for each executable that failed. The output of the
executables goes to history.`,
		Example: `  # crontab: every slot of the default width
  */15 * * * * prescient spool run --dir /var/spool/checks
  7 * * * * prescient spool catch-up --dir /var/spool/checks`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return runSpool(c.Context(), a, width, slot) },
	}))
	c.Flags().Var(&slot, "slot", "the `SLOT` to run; default: the one that has begun last")
	addRunFlags(c.Flags(), "workers", "grace", "early", "job-name")
	return c
}

func runSpool(ctx context.Context, a *App, width *time.Duration, at instant) error {
	s, err := a.openSpool(*width)
	if err != nil {
		return err
	}
	slot := at.at
	if !at.given() {
		slot = s.Due(a.Config().Run.JobName)
	} else if !s.Grid().Contains(slot) {
		return notSlot(s.Grid(), slot)
	}
	result, err := s.Run(ctx, slot)
	if result.State == "" { // not begun
		return err
	}
	a.done(result.Checked > 0).LogAttrs(ctx, slog.LevelInfo, "spool run", slog.Any("", result))
	return errors.Join(err, a.print(newSpoolResultView(result), func() error { return nil }))
}

// spoolResultView is a spool.Result as JSON.
type spoolResultView struct {
	Slot        time.Time     `json:"slot"`
	Kind        slots.Kind    `json:"kind"`
	State       slots.State   `json:"state"`
	Held        bool          `json:"held"`
	Checked     int           `json:"checked"`
	Finished    int           `json:"finished"`
	Rescheduled int           `json:"rescheduled"`
	Failed      int           `json:"failed"`
	Yielded     int           `json:"yielded"`
	Running     int           `json:"running"`
	Refused     int           `json:"refused"`
	Abandoned   int           `json:"abandoned"`
	Took        duration.Text `json:"took"`
}

func newSpoolResultView(r spool.Result) spoolResultView {
	return spoolResultView{
		r.Slot, r.Kind, r.State, r.Held, r.Checked, r.Finished, r.Rescheduled, r.Failed, r.Yielded,
		r.Running, r.Refused, r.Abandoned, duration.Text(r.Took),
	}
}
