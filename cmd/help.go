package cmd

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/internal/spoken"
)

// readableWidth bounds the width of text that is read line by line.
const readableWidth = 100

// flagsTopic is the page about the flags that every command has.
const flagsTopic = "flags"

// newHelp is cobra's help command, but an unknown topic is an error.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command", Annotations: map[string]string{cli.NeedsNoConfig: ""},
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err == nil && c.Name() == jsonTopic {
				return writeSchema(root.OutOrStdout(), root, rest)
			}
			if err != nil || len(rest) > 0 {
				message := fmt.Sprintf("there is no command %q", strings.Join(args, " "))
				if near := c.SuggestionsFor(rest[0]); len(near) > 0 {
					message += spoken.DidYouMean(near)
				}
				return exit.Usagef("%s", withHelp(message, root.Name()))
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			c, rest, err := root.Find(args)
			if err == nil && len(rest) == 0 {
				for _, sub := range c.Commands() {
					if !sub.Hidden {
						names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// newFlagsTopic returns a page of help that is not a command.
func newFlagsTopic() *cobra.Command {
	return &cobra.Command{
		Use:   flagsTopic,
		Short: "Flags that every command has, and what flags take",
		Long: `Every command has the flags below. --database-url, --schema and --log-level are also settings, for the
configuration file or the environment, and "config show" names the source of each. The environment has PRESCIENT_CONFIG
for --config. --store has no setting.

What flags take:

  DURATION  numbers with units: 90s, 15m, 12h, 90d or 1d12h
  TIME      an instant in RFC 3339, such as 2026-03-01T13:05:00Z, or a date, its midnight in UTC; some flags also take
            how long ago it was, such as 7d
  SLOT      an instant on the grid of slots, such as 2026-03-01T13:15:00Z
  N         a whole number

A flag that is given two different values is refused, unless its help says that it may be repeated.

An instant on stdout is in UTC.`,
	}
}

// addGroup adds commands to the root, which help lists together below a title.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, c := range commands {
		c.GroupID = title
	}
	root.AddCommand(commands...)
}

// writeHelp prints the page of a command, as wide as the terminal: usage, examples, and the
// description. Exit codes come last.
func writeHelp(p *output.Printer, c *cobra.Command) error {
	width := min(cmp.Or(p.Width(), output.Narrow), readableWidth)
	long, codes := strings.CutSuffix(c.Long, codesHelp)
	first, long := firstSentence(c.Short, long)
	var b strings.Builder
	b.WriteString(output.Fill(first, width) + "\n\n")
	usage(&b, c, width)
	if long != "" {
		b.WriteString(output.Fill(long, width) + "\n\n")
	}
	usageOfFlags(&b, c, width)
	if codes {
		b.WriteString("\n" + output.Fill(codesHelp, width) + "\n")
	}
	_, err := io.WriteString(p.Out, b.String())
	return err
}

// firstSentence returns the first sentence of a page, and the rest of the description. The description may begin with
// the short one, or say the same in more words.
func firstSentence(short, long string) (first, rest string) {
	short += "."
	if rest, same := strings.CutPrefix(long, short); same {
		return short, strings.TrimSpace(rest)
	}
	paragraph, _, _ := strings.Cut(long, "\n\n") // a list that follows a colon is no sentence
	end := sentenceEnd.FindStringIndex(paragraph)
	if words := strings.Fields(short); end != nil && len(words) > 2 {
		if said := strings.Fields(long[:end[0]+1]); len(said) > 2 && slices.Equal(said[:2], words[:2]) {
			return strings.Join(said, " "), strings.TrimSpace(long[end[1]:])
		}
	}
	return short, strings.TrimSpace(long)
}

var sentenceEnd = regexp.MustCompile(`\.(\s+|$)`)

// usage writes the usage of a command, with examples and subcommands.
func usage(b *strings.Builder, c *cobra.Command, width int) {
	switch {
	case c.HasAvailableSubCommands():
		fmt.Fprintf(b, "Usage:\n  %s COMMAND\n\n", c.CommandPath())
	case c.Runnable():
		fmt.Fprintf(b, "Usage:\n  %s\n\n", c.UseLine())
	}
	if c.HasExample() {
		fmt.Fprintf(b, "Examples:\n%s\n\n", c.Example)
	}
	for _, g := range c.Groups() {
		list(b, g.Title, c.Commands(), func(sub *cobra.Command) bool {
			return sub.IsAvailableCommand() && sub.GroupID == g.ID
		}, width)
	}
	list(b, "Commands", c.Commands(), func(sub *cobra.Command) bool {
		return sub.IsAvailableCommand() && sub.GroupID == ""
	}, width)
	list(b, "Topics", c.Commands(), (*cobra.Command).IsAdditionalHelpTopicCommand, width)
}

// usageOfFlags writes the flags of a command, and where to find more help.
func usageOfFlags(b *strings.Builder, c *cobra.Command, width int) {
	if flags := own(c); flags.HasAvailableFlags() {
		fmt.Fprintf(b, "Flags:\n%s\n", flags.FlagUsagesWrapped(width))
	}
	root := c.Root().CommandPath()
	if c.HasAvailableSubCommands() {
		b.WriteString(output.Fill(fmt.Sprintf("%q describes a command.", c.CommandPath()+" COMMAND --help"), width) + "\n")
	}
	if c.Name() != flagsTopic {
		b.WriteString(output.Fill(fmt.Sprintf("%q describes the flags that every command has.", root+" help "+flagsTopic),
			width) + "\n")
	}
}

// list writes the chosen commands, with their descriptions, below a title.
func list(b *strings.Builder, title string, commands []*cobra.Command, chosen func(*cobra.Command) bool, width int) {
	begun := false
	for _, c := range commands {
		if !chosen(c) {
			continue
		}
		if !begun {
			b.WriteString(title + ":\n")
			begun = true
		}
		b.WriteString(output.Fill(fmt.Sprintf("  %-*s  %s", c.NamePadding(), c.Name(), c.Short), width) + "\n")
	}
	if begun {
		b.WriteByte('\n')
	}
}

// own returns the flags of a command and of its group. For the page of flags it returns the flags
// of every command.
func own(c *cobra.Command) *pflag.FlagSet {
	everywhere := c.Root().PersistentFlags()
	if c.Name() == flagsTopic {
		return everywhere
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	add := func(f *pflag.Flag) {
		if everywhere.Lookup(f.Name) == nil && f.Name != "help" {
			flags.AddFlag(f)
		}
	}
	c.LocalFlags().VisitAll(add)
	c.InheritedFlags().VisitAll(add)
	return flags
}
