// Package factory describes the program to the packages of its commands. It knows no command.
package factory

import (
	"context"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/multistore"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/config"
)

// Factory is the program of a command. Commands call its functions when they run: the settings and
// the log are not known before.
type Factory struct {
	// Name is the name of the binary.
	Name string
	// Self returns the command line that calls the binary again, for the same schema.
	Self func() string
	// Printer prints data on stdout.
	Printer func() *output.Printer
	// Log returns the log, on stderr.
	Log func() *slog.Logger
	// Done returns the log for a success. something reports whether the command changed anything.
	Done func(something bool) *slog.Logger
	// Verbose makes a command silent about success if cron runs it, and gives it --verbose.
	Verbose func(c *cobra.Command) *cobra.Command
	// Config returns the settings, and the file that they were read from.
	Config func() config.Loaded
	// Origin returns the source of a setting, such as a flag or a file.
	Origin func(key string) string
	// Scope returns which stores the command works on.
	Scope func() multistore.Scope
	// Width asks the database for the width of its slots, and returns the name of that database,
	// too. Of several stores it is the smallest width.
	Width func(ctx context.Context) (width time.Duration, from string, err error)
}
