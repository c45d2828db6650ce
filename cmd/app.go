package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// App is the command line of one binary. It runs one command line at a time.
type App struct {
	// Name of the binary in help and messages. Default: the last element of os.Args[0].
	Name string
	// In is read if a flag has the value "-". Out receives data. Err receives the log and progress.
	// Default: those of the process.
	In       io.Reader
	Out, Err io.Writer

	registry *jobs.Registry
	extra    []func(*App) *cobra.Command
	global   bool             // the log is slog's default, too
	printed  func(v any)      // sees what is printed as JSON, for a test
	f        *factory.Factory // of the command line that runs
}

// New returns the command line of a binary with the jobs of registry. extra adds the binary's own
// commands.
func New(registry *jobs.Registry, extra ...func(*App) *cobra.Command) *App {
	name := filepath.Base(os.Args[0])
	return &App{
		Name: name, In: os.Stdin, Out: os.Stdout, Err: os.Stderr, registry: registry, extra: extra,
		f: factory.New(factory.Config{Name: name, In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Registry: registry}),
	}
}

// Config returns the settings. They are loaded when a command's RunE or Run is called, not before.
func (a *App) Config() config.Config { return a.f.Config() }

// Log returns the log, which writes to Err, in the format and with the level of the settings.
func (a *App) Log() *slog.Logger { return a.f.Log() }

// Registry returns the jobs of the binary.
func (a *App) Registry() *jobs.Registry { return a.registry }

// Open connects to the database of the settings; the caller closes it.
//
// If database.url is config.Embedded, or is not set and the command has a terminal, that is the
// private PostgreSQL. Open starts it if it does not run, and migrates its schema. Without
// database.url and a terminal Open returns an error.
//
// A database given by its URL is never changed. If it lacks the schema, the error is
// pgsql.ErrNotMigrated. Open also returns an error if the settings expect another width than the
// database has.
func (a *App) Open(ctx context.Context, opts ...pgsql.Option) (*sqlx.DB, error) {
	return database.Open(ctx, a.f, opts...)
}

// URL returns the URL of the database that Open opens, with its password, and starts and checks that
// database as Open does.
func (a *App) URL(ctx context.Context) (string, error) { return database.URL(ctx, a.f) }

// ReplayURL is URL for replays and demos, which leave no trace in a database and need no schema in
// it. If no database.url is set, it is always the private PostgreSQL.
func (a *App) ReplayURL(ctx context.Context) (string, error) { return database.ReplayURL(ctx, a.f) }

// Run runs the command line args, which lacks the binary's name. It prints errors to Err before it
// returns.
func (a *App) Run(ctx context.Context, args []string) Code {
	line := a.newLine()
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		complete(a.f, line.root)
	}
	line.args = args
	line.root.SetArgs(args)
	c, err := line.root.ExecuteContextC(ctx)
	code := codeOf(err)
	switch {
	case err != nil && !line.reached && !unwritten(err):
		code, err = Usage, errors.New(withHelp(explainUsage(c, err.Error()), c.CommandPath()))
	case err == nil && line.helpErr != nil:
		code, err = Failure, line.helpErr
	}
	report(ctx, a.f, failure{c, args, code, err})
	_ = a.f.Close() // the process ends
	return code
}

// withHelp adds to a message where to read more.
func withHelp(message, command string) string {
	if strings.HasSuffix(message, "?") {
		return fmt.Sprintf("%s See %s --help", message, command)
	}
	return fmt.Sprintf("%s; see %s --help", message, command)
}

// unwritten reports whether err says that a file could not be written: cobra itself prints the version.
func unwritten(err error) bool {
	failed, ok := errors.AsType[*fs.PathError](err)
	return ok && failed.Op == "write"
}
