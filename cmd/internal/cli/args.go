package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/strictjson"
)

// NeedsNoConfig annotates a command that also works with a broken configuration.
const NeedsNoConfig = "needs-no-config"

// Exactly requires the named arguments, and names a missing one in its error.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return fmt.Errorf("missing argument: want %s", strings.Join(names, " "))
		case len(args) > len(names):
			want := "nothing more"
			if len(names) > 0 {
				want = strings.Join(names, " ") + " and " + want
			}
			return fmt.Errorf("unexpected argument %q: want %s", args[len(names)], want)
		}
		return nil
	}
}

// AtLeast requires the named argument, and accepts more of it.
func AtLeast(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("missing argument: want %s, or several", name)
		}
		return nil
	}
}

// AtMost accepts the named argument, and nothing more.
func AtMost(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return Exactly(name)(c, args)
	}
}

// Group returns a command that only has subcommands.
func Group(use, short string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short}
	c.SuggestionsMinimumDistance = 2
	c.DisableFlagsInUseLine = true
	c.AddCommand(subs...)
	RequireSubcommand(c, subs)
	return c
}

// RequireSubcommand makes a command return an error that lists its subcommands if the arguments name none of them.
func RequireSubcommand(c *cobra.Command, subs []*cobra.Command) {
	c.RunE = func(*cobra.Command, []string) error { return nil } // Args lets nothing come here
	c.Args = func(c *cobra.Command, args []string) error {
		names := seq.Map(subs, (*cobra.Command).Name)
		if len(args) == 0 {
			return fmt.Errorf("missing command: want %s", spoken.OrList(names))
		}
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			return fmt.Errorf("unknown command %q%s", args[0], spoken.DidYouMean(near))
		}
		return fmt.Errorf("unknown command %q: want %s", args[0], spoken.OrList(names))
	}
}

// SuggestFlags names the flags that an unknown one may have been meant for, or the command where
// that one is unknown, too.
func SuggestFlags(c *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	if args := c.Flags().Args(); c.HasSubCommands() && len(args) > 0 { // before the flag
		return c.ValidateArgs(args)
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	near := spoken.Nearest(unknown.GetSpecifiedName(), names)
	for i := range near {
		near[i] = "--" + near[i]
	}
	if len(near) == 0 {
		return err
	}
	return fmt.Errorf("%w%s", err, spoken.DidYouMean(near))
}

// Known names what there is instead of a name that is not known. Kind is a noun in the singular.
func Known(kind string, names []string) string {
	switch len(names) {
	case 0:
		return fmt.Sprintf("; there are no %ss", kind)
	case 1:
		return fmt.Sprintf("; the only %s is %s", kind, names[0])
	}
	return fmt.Sprintf("; the %ss are %s", kind, spoken.List(names))
}

// Payload returns the JSON value that a flag gives. It reads the value "-" from in. No value is nil.
func Payload(in io.Reader, text string) (json.RawMessage, error) {
	switch text {
	case "":
		return nil, nil
	case "-":
		payload, err := io.ReadAll(in)
		if err != nil {
			return nil, fmt.Errorf("read the payload from stdin: %w", err)
		}
		text = string(payload)
	}
	// A text that is not JSON is reported with all other errors. Keys that differ only in case
	// belong to the application.
	err := strictjson.Check([]byte(text))
	if err != nil && json.Valid([]byte(text)) {
		return nil, exit.Usagef("payload: %w", err)
	}
	if name, value, field := strings.Cut(text, "="); err != nil && field && !strings.ContainsAny(name, `{["'`+"\n") {
		if !json.Valid([]byte(value)) {
			value = strconv.Quote(value)
		}
		return nil, exit.Usagef("--payload %s: must be valid JSON, such as: --payload '{%q: %s}'", text, name, value)
	}
	return json.RawMessage(text), nil
}
