package devdbcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/demo"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/replay"
)

func newCmdDemo(f *factory.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Play two days in seconds: orders, alerts, an outage, catch-up",
		Long: `Play two days in seconds. Orders come in, alerts fire as slots pass, an outage misses three slots, and catch-up
repairs them. The real engine runs in virtual time, in a schema of its own. The command drops that schema at the end and
touches nothing else in the database. Every demo is the same.`,
		Example: "  prescient dev-db demo",
		Args:    cli.Exactly(),
		RunE:    func(c *cobra.Command, _ []string) error { return tellDemo(c.Context(), f) },
	}
}

func tellDemo(ctx context.Context, f *factory.Factory) (err error) {
	started := time.Now() //nolint:forbidigo // measures
	url, err := database.ReplayURL(ctx, f)
	if err != nil {
		return err
	}
	db, err := replay.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	p := f.Printer
	if _, err := demo.Tell(ctx, db, p.Out, demo.Options{
		Seed: demo.DefaultSeed, Colour: p.Colour(), Width: p.Width(), Name: typed(f.Name),
	}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Out, "\nTwo days took %s.\n", time.Since(started).Round(10*time.Millisecond))
	if err == nil && database.Private(f) {
		_, err = fmt.Fprintf(p.Out, "The private PostgreSQL runs on, until: %s dev-db stop\n", typed(f.Name))
	}
	return err
}

// typed returns the words that call the binary from here: its name if the shell finds it, else
// os.Args[0].
func typed(name string) string {
	if _, err := exec.LookPath(name); err != nil {
		return os.Args[0]
	}
	return name
}
