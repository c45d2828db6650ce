package cmd

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/internal/spoken"
)

// failure is a command that did not succeed.
type failure struct {
	command *cobra.Command
	args    []string // of the command line
	code    Code
	err     error // nil: it has succeeded
}

// report tells why a command did not succeed, as plain text or as a line of a JSON log.
func report(ctx context.Context, f *factory.Factory, failed failure) {
	if silent, ok := errors.AsType[*ExitError](failed.err); failed.err == nil || ok && silent.Err == nil {
		return
	}
	lines := slices.Compact(strings.Split(failed.err.Error(), "\n")) // a full disk repeats its error for each file
	text := strings.Join(lines, "\n")
	if ctx.Err() != nil { // by Ctrl-C, or by a service manager
		text = interrupted.ReplaceAllString(text, "interrupted")
	}
	text = redact(f.Named(spoken.Error(text)+database.Advice(ctx, f, failed.err)), failed.args)
	path := failed.command.CommandPath()
	if f.Config().Log.Format == "json" {
		f.Log().ErrorContext(ctx, "command failed", "command", path, "exit_code", int(failed.code), "error", text)
		return
	}
	_, _ = fmt.Fprintf(f.Err(), "%s: %s\n", path, plain.Text(text))
}

// interrupted matches the end of an error of a statement that was cancelled.
var interrupted = regexp.MustCompile(`pq: canceling statement due to user request \(57014\)$|context canceled$`)

// secretive matches the part of an argument that may hold a password: from a scheme on, or from the
// name of a password on.
var secretive = regexp.MustCompile(`(?is)[a-z]+://.*@.*|(passw\w*|pwd)\s*=.*`)

// redact masks in a message the passwords of the command line's arguments, because messages quote
// arguments.
func redact(text string, args []string) string {
	for _, arg := range args {
		secret := secretive.FindString(arg)
		if secret == "" {
			continue
		}
		shown := config.Redact(secret)
		quoted := strconv.Quote(secret)
		text = strings.ReplaceAll(text, quoted[1:len(quoted)-1], shown)
		text = strings.ReplaceAll(text, secret, shown)
	}
	return text
}
