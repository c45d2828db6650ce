package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/prescient-go/prescient/cmd"
)

type replayOptions struct {
	orders, out string
	rule        rule
}

func replayCommand(app *cmd.App) *cobra.Command {
	var o replayOptions
	c := &cobra.Command{
		Use:   "replay",
		Short: "Tell which alerts the orders of a file would have raised",
		Long: `Tell which alerts the orders of a file would have raised, by taking them through the engine in virtual time,
slot by slot, 15 minutes apart. It works in a schema of its own, which it drops at the end, and touches nothing else.

FILE is CSV with a header that has at least order_id, placed_at and shipped_at; times are RFC 3339,
and shipped_at is empty for an order that never was. With --cancel each order asks for both of its
alerts at once, and the transaction that ships it cancels them: the alerts are the same, what it
costs is not. Other columns and the order of the lines do not matter. When a line is wrong, nothing
is run. The alerts are written as CSV, order_id,alert,slot, sorted by slot.`,
		Example: "  prescient replay --orders orders.csv --primary 48h --final 120h --out alerts.csv",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return runReplay(c.Context(), app, o) },
	}
	c.Flags().StringVar(&o.orders, "orders", "", "`FILE` of the orders")
	c.Flags().StringVar(&o.out, "out", "alerts.csv", "`FILE` for the alerts; an older one is replaced")
	o.rule.flags(c)
	_ = c.MarkFlagRequired("orders")
	return c
}

func runReplay(ctx context.Context, app *cmd.App, o replayOptions) error {
	if err := o.rule.validate(); err != nil {
		return &cmd.ExitError{Code: cmd.Usage, Err: err}
	}
	orders, err := readFile(o.orders)
	if err != nil {
		return err
	}
	out, err := newDraft(o.out)
	if err != nil {
		return err
	}
	defer out.discard()
	if same(o.orders, o.out) {
		return &cmd.ExitError{Code: cmd.Usage, Err: fmt.Errorf("--out %s: is the file of the orders", o.out)}
	}
	sum, err := playIn(ctx, app, orders, o.rule)
	if ctx.Err() != nil {
		return &cmd.ExitError{Code: cmd.Stopped, Err: errors.New("stopped before the end; nothing was written")}
	}
	if err != nil {
		return err
	}
	if err := writeAlerts(out, sum.alerts); err != nil {
		return fmt.Errorf("write %s: %w", o.out, err)
	}
	if err := out.publish(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(app.Out, sum)
	return err
}

func readFile(path string) ([]order, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	orders, err := readOrders(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return orders, nil
}

// playIn plays orders in the database of the settings, which need not have the schema of prescient.
func playIn(ctx context.Context, app *cmd.App, orders []order, r rule) (sum summary, err error) {
	url, err := app.ReplayURL(ctx)
	if err != nil {
		return sum, err
	}
	db, err := connect(ctx, url)
	if err != nil {
		return sum, err
	}
	defer func() { _ = db.Close() }()
	p := newProgress(app, len(orders))
	defer p.clear()
	return playParts(ctx, db, orders, r, partsOf(orders), p.show)
}

// same tells whether two paths name one file.
func same(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// String says what was done, and how fast.
func (s summary) String() string {
	kinds := map[string]int{}
	for _, a := range s.alerts {
		kinds[a.Alert]++
	}
	rate := float64(s.checks) / max(s.took.Seconds(), 1e-3)
	cancelled := ""
	if s.cancelled > 0 {
		cancelled = fmt.Sprintf(" of %d that were asked for, %d cancelled", s.asked, s.cancelled)
	}
	return fmt.Sprintf("%d orders, %d slots, %d checks%s, %d alerts (%d primary, %d final) in %s: %.0f checks/s",
		s.orders, s.slots, s.checks, cancelled, len(s.alerts), kinds["primary"], kinds["final"],
		s.took.Round(time.Millisecond), rate)
}

// progress is a line on the terminal. In a pipe it prints nothing.
type progress struct {
	file  *os.File
	total int
	shown time.Time
}

func newProgress(app *cmd.App, total int) *progress {
	file, ok := app.Err.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return &progress{}
	}
	return &progress{file: file, total: total}
}

func (p *progress) show(s summary) {
	if p.file == nil || time.Since(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = time.Now() //nolint:forbidigo // measures
	_, _ = fmt.Fprintf(p.file, "\r\x1b[K%d of %d orders, %d checks", s.orders, p.total, s.checks)
}

func (p *progress) clear() {
	if p.file != nil {
		_, _ = fmt.Fprint(p.file, "\r\x1b[K")
	}
}
