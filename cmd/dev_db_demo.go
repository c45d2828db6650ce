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
		Short: "Tell a story of two days: orders, alerts, an outage, catch-up",
		Long: `Tell a story of two days, in some seconds: orders come in, alerts fire as slots pass, three slots are missed in
an outage, and catch-up repairs it. It is the real engine in virtual time, in a schema of its own that is dropped at the
end; nothing else in the database is touched. It always tells the same story.`,
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

// typed is how to call the binary from here: by its name where the shell finds it, else as this time.
func (a *App) typed() string {
	if _, err := exec.LookPath(a.Name); err != nil {
		return os.Args[0]
	}
	return a.Name
}
