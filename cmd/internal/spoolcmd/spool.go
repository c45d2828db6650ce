// Package spoolcmd has the commands that run executables from a folder: spool add and spool run.
package spoolcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/spool"
)

// folder is the spool that a command works on.
type folder struct {
	f     *factory.Factory
	width time.Duration // the value of --width; 0: that of the settings
}

func (o *folder) open() (*spool.Spool, error) {
	cfg := o.f.Config()
	g, err := grid.New(cmp.Or(o.width, cfg.Slots.Width, grid.DefaultWidth))
	if err != nil {
		return nil, exit.Usagef("--width: %w", err)
	}
	grace := cmp.Or(cfg.Run.Grace, -1) // 0 would be the default of package spool
	return spool.Open(spool.Config{Dir: cfg.Spool.Dir, Grid: g, Grace: grace, Logger: o.f.Log()})
}

// NewCmdSpool returns the command spool, with those below it.
func NewCmdSpool(f *factory.Factory) *cobra.Command {
	o := &folder{f: f}
	c := cli.Group("spool", "Run executables from a folder for each slot, without a database", newCmdAdd(o, runAdd),
		newCmdRun(o, runRun))
	c.Long = fmt.Sprintf(`Run executables from a folder for each slot, without a database. "spool run"
starts those in DIR/2603011315 at 2026-03-01T13:15:00Z, one after another. The exit status of an
executable decides what becomes of it:

  0              it is finished and moves to DIR/done/2603011315
  75             it moves to the next slot
  anything else  it is retried 1, 2, 4 ... slots later; after %d errors in a row it moves to DIR/failed/2603011315

A line "next: 2026-03-01T14:00:00Z" in its output, with status 0 or 75, asks for the slot at or after that time. The
output is in DIR/output/2603011315. An executable may run for %s at a time. If SIGTERM ends it after that time,
status 0 without such a line is an error. If an executable asks for another slot after %d runs without an error, it
moves to DIR/failed, too.

DIR is spool.dir of the configuration, or PRESCIENT_SPOOL_DIR.`,
		spool.Retry+1, duration.Text(spool.Timeout), spool.MaxChecks)
	duration.Var(c.PersistentFlags(), &o.width, "width", 0,
		"distance between two slots, whole minutes; default: slots.width of the configuration, else 15m")
	return c
}

// addOptions are the options of spool add.
type addOptions struct {
	*folder
	path string
	when cli.When
	name string
}

func newCmdAdd(in *folder, runF func(o *addOptions) error) *cobra.Command {
	o := &addOptions{folder: in}
	c := in.f.WithOutput(&cobra.Command{
		Use:   "add FILE",
		Short: "Put a copy of an executable into the folder of a slot",
		Long: `Put a copy of an executable into the folder of the first slot at or after an instant. The copy appears as a
whole, so that no run starts half of it. A slot that has begun is never a target: the next one is.`,
		Example: `  prescient spool add --in 48h ./look-at-order-42
  prescient spool add --at 2026-03-01T13:05:00Z --name order-42 ./look`,
		Args: cli.Exactly("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			o.path = args[0]
			return runF(o)
		},
	})
	o.when.Flags(c)
	c.MarkFlagsOneRequired("at", "in")
	c.Flags().StringVar(&o.name, "name", "", "`NAME` in the folder; default: the last element of FILE")
	return c
}

func runAdd(o *addOptions) error {
	s, err := o.open()
	if err != nil {
		return err
	}
	content, err := os.ReadFile(o.path)
	if err != nil {
		return exit.Usagef("%w", err)
	}
	file := spool.File{Name: cmp.Or(o.name, filepath.Base(o.path)), State: spool.StateWaiting}
	if file.Slot, err = s.Add(file.Name, content, o.when.From(s.Now())); err != nil {
		return err
	}
	p := o.f.Printer
	return p.Print(file, func() error { return p.Table(table.Row{"SLOT", "NAME"}, table.Row{file.Slot, file.Name}) })
}

// runOptions are the options of spool run.
type runOptions struct {
	*folder
	catchUp bool
	check   bool
}

func newCmdRun(in *folder, runF func(ctx context.Context, o *runOptions) error) *cobra.Command {
	o := &runOptions{folder: in}
	c := factory.QuietInPipes(in.f.WithOutput(&cobra.Command{
		Use:   "run",
		Short: "Run the executables of the current slot, with --catch-up those of earlier slots, too",
		Long: `Run the executables of the current slot. With --catch-up, first run those of earlier slots, the oldest slot
first. If another run is at work, it does nothing and exits with 0. That run takes the slots that begin meanwhile.

With --check it runs nothing, and lists what was missed and what cannot run. It then exits 3 if there is
anything. A run that finds a file that cannot run exits 6.`,
		Example: `  # crontab: every slot of the default width
  */15 * * * * prescient spool run --catch-up
  prescient spool run --check`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return runF(c.Context(), o) },
	}))
	c.Flags().BoolVar(&o.catchUp, "catch-up", false, "run the files of earlier slots first")
	c.Flags().BoolVar(&o.check, "check", false,
		"run nothing: list what was missed or cannot run, and exit with 3 if there is anything")
	return c
}

func runRun(ctx context.Context, o *runOptions) error {
	s, err := o.open()
	if err != nil {
		return err
	}
	var files []spool.File
	if o.check {
		files, err = s.Files()
		files = slices.DeleteFunc(files, func(f spool.File) bool { return f.State == spool.StateWaiting })
	} else {
		files, err = s.Run(ctx, o.catchUp)
		if errors.Is(err, spool.ErrHeld) {
			o.f.Log().InfoContext(ctx, "nothing done", "reason", err)
			err = nil
		}
		became := map[spool.State]int{}
		for _, f := range files {
			became[f.State]++
		}
		o.f.Log().InfoContext(ctx, "spool run", "files", len(files), "done", became[spool.StateDone],
			"moved", became[spool.StateMoved], "failed", became[spool.StateFailed], "left", became[spool.StateLeft],
			"refused", became[spool.StateRefused])
	}
	if p := o.f.Printer; o.check && len(files) > 0 || p.IsJSON() {
		header := table.Row{"SLOT", "STATE", "NAME", "PROBLEM"}
		err = errors.Join(err, output.List(p, files, header, func(f spool.File) table.Row {
			return table.Row{f.Slot, string(f.State), f.Name, f.Problem}
		}))
	}
	refused := slices.ContainsFunc(files, func(f spool.File) bool { return f.State == spool.StateRefused })
	switch {
	case err != nil:
		return err
	case o.check && len(files) > 0:
		return &exit.Error{Code: exit.Found}
	case refused:
		return &exit.Error{Code: exit.Left}
	}
	return nil
}
