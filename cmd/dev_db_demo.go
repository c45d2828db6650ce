package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/demo"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/slots/replay"
)

func newDemo(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Play two days in seconds: orders, alerts, an outage, catch-up",
		Long: `Play two days in seconds. Orders come in, alerts fire as slots pass, an outage misses three slots, and catch-up
repairs them. The real engine runs in virtual time, in a schema of its own. The command drops that schema at the end and
touches nothing else in the database. Every demo is the same.`,
		Example: "  prescient dev-db demo",
		Args:    cli.Exactly(),
		RunE:    func(c *cobra.Command, _ []string) error { return tellDemo(c.Context(), a) },
	}
}

func tellDemo(ctx context.Context, a *App) (err error) {
	started := time.Now() //nolint:forbidigo // measures
	url, err := a.ReplayURL(ctx)
	if err != nil {
		return err
	}
	db, err := replay.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := demo.Tell(ctx, db, a.Out, demo.Options{Seed: demo.DefaultSeed, Colour: a.colour(), Width: a.width(), Name: a.typed()}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "\nTwo days took %s.\n", time.Since(started).Round(10*time.Millisecond))
	if err == nil && a.private() {
		_, err = fmt.Fprintf(a.Out, "The private PostgreSQL runs on, until: %s dev-db stop\n", a.typed())
	}
	return err
}

// typed returns the words that call the binary from here: its name if the shell finds it, else
// os.Args[0].
func (a *App) typed() string {
	if _, err := exec.LookPath(a.Name); err != nil {
		return os.Args[0]
	}
	return a.Name
}
