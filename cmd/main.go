package cmd

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/jobs"
)

// gcPercent is for a heap of a few megabytes through which millions of rows pass: with Go's default, a third of what a
// run costs this process is collecting garbage. The environment variable GOGC goes before it.
const gcPercent = 400

// Main is the whole command line of a binary with the jobs of registry: it runs the command that os.Args names and
// exits with its Code. SIGINT and SIGTERM stop the command in good order; a second one kills it. extra adds commands;
// each function is called once for every command line and may keep the App for later. The log is also slog's default,
// so that checks log alike.
func Main(registry *jobs.Registry, extra ...func(*App) *cobra.Command) {
	os.Exit(int(Run(registry, extra...)))
}

// Run is Main for a binary that has something left to do before it exits with the Code, such as to send its last spans.
func Run(registry *jobs.Registry, extra ...func(*App) *cobra.Command) Code {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}

	app := New(registry, extra...)
	app.global = true
	return app.Run(ctx, os.Args[1:])
}
