package cmd

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/jobs"
)

// gcPercent suits a heap of a few megabytes through which millions of rows pass. With Go's default,
// garbage collection takes a third of this process's share of a run. The environment variable GOGC
// overrides it.
const gcPercent = 400

// Main is the whole command line of a binary with the jobs of registry. It runs the command that
// os.Args names and exits with its Code. SIGINT, SIGTERM and SIGHUP stop the command gracefully; a
// second SIGINT or SIGTERM kills it. nohup keeps SIGHUP from the command. extra adds commands: each function is called
// once for every command line and may keep the App for later. The log is also slog's default, so checks log in the same
// way.
func Main(registry *jobs.Registry, extra ...func(*App) *cobra.Command) {
	os.Exit(int(Run(registry, extra...)))
}

// logging lists the commands whose output is a log, and that go on without its reader.
var logging = []string{"daemon", "run", "catch-up", "serve", "spool"}

// Run is Main for a binary that has work to do before it exits with the Code, such as sending its
// last spans.
func Run(registry *jobs.Registry, extra ...func(*App) *cobra.Command) Code {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop() // ends what watches the connections, too
	// A second one kills. SIGHUP does not count.
	context.AfterFunc(ctx, stop)
	// nohup ignores it for the command.
	if !signal.Ignored(syscall.SIGHUP) {
		var release context.CancelFunc
		// A second one does not kill: when a terminal is closed, its shell and the kernel each send one.
		ctx, release = signal.NotifyContext(ctx, syscall.SIGHUP)
		defer release()
	}
	// A log whose reader has gone, such as a restarted logger, must not kill a run: its writes fail instead. Notify,
	// because programs that the run starts would inherit Ignore.
	if slices.ContainsFunc(os.Args[1:], func(arg string) bool { return slices.Contains(logging, arg) }) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}

	app := New(registry, extra...)
	app.global = true
	return app.Run(ctx, os.Args[1:])
}
