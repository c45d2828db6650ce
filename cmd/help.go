package cmd

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// readableWidth is how wide text may be that is read line by line.
const readableWidth = 100

// flagsTopic is the page about the flags that every command has.
const flagsTopic = "flags"

// newHelp is cobra's help command, but an unknown topic is an error.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command", Annotations: map[string]string{needsNoConfig: ""},
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("there is no command %q; see %s --help", strings.Join(args, " "), root.Name())
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

// newFlagsTopic is a page of help, and no command.
func newFlagsTopic() *cobra.Command {
	return &cobra.Command{
		Use:   flagsTopic,
		Short: "Flags that every command has, and what flags take",
		Long: `Every command has the flags below. Each is a setting, too, that can be in a configuration file or in the environment;
"config show" tells where each comes from.

What flags take:

  DURATION  numbers with units: 90s, 15m, 12h, 90d or 1d12h
  TIME      an instant in RFC 3339, such as 2026-03-01T13:05:00Z, or a date, its midnight in UTC; some take how long ago
            that is, such as 7d
  SLOT      an instant on the grid of slots, such as 2026-03-01T13:15:00Z
  N         a whole number

An instant on stdout is in UTC.`,
	}
}

// help prints the page of a command, as wide as the terminal.
func (a *App) help(c *cobra.Command, _ []string) {
	width := min(cmp.Or(a.width(), narrow), readableWidth)
	_, err := io.WriteString(a.Out, fill(cmp.Or(c.Long, c.Short), width)+"\n\n")
	a.unhelped = cmp.Or(err, usage(a.Out, c, width))
}

// usage prints how a command is used.
func usage(w io.Writer, c *cobra.Command, width int) error {
	var b strings.Builder
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "Usage:\n  %s COMMAND\n\nCommands:\n", c.CommandPath())
		list(&b, c.Commands(), (*cobra.Command).IsAvailableCommand, width)
	} else if c.Runnable() {
		fmt.Fprintf(&b, "Usage:\n  %s\n\n", c.UseLine())
	}
	if c.HasHelpSubCommands() {
		b.WriteString("Topics:\n")
		list(&b, c.Commands(), (*cobra.Command).IsAdditionalHelpTopicCommand, width)
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "Examples:\n%s\n\n", c.Example)
	}
	if flags := own(c); flags.HasAvailableFlags() {
		fmt.Fprintf(&b, "Flags:\n%s\n", flags.FlagUsagesWrapped(width))
	}
	root := c.Root().CommandPath()
	if c.HasAvailableSubCommands() {
		b.WriteString(fill(fmt.Sprintf("%q tells about a command.", c.CommandPath()+" COMMAND --help"), width) + "\n")
	}
	if c.Name() != flagsTopic {
		b.WriteString(fill(fmt.Sprintf("%q tells about the flags that every command has.", root+" help "+flagsTopic), width) + "\n")
	}
	_, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

// list prints commands with what they do.
func list(b *strings.Builder, commands []*cobra.Command, which func(*cobra.Command) bool, width int) {
	for _, c := range commands {
		if which(c) {
			b.WriteString(fill(fmt.Sprintf("  %-*s  %s", c.NamePadding(), c.Name(), c.Short), width) + "\n")
		}
	}
	b.WriteByte('\n')
}

// own is the flags of a command and of its group; on the page of flags, those that every command has.
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

// fill wraps text, whose paragraphs may be in lines of any length. A line that begins with a space is an entry of a
// list, and goes on below its last column; one without a label is code, and stays as it is.
func fill(long string, width int) string {
	var lines []string
	for paragraph := range strings.SplitSeq(long, "\n\n") {
		if len(lines) > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, entries(paragraph, width)...)
	}
	return strings.Join(lines, "\n")
}

// entries wraps the lines of a paragraph: those that belong together as one.
func entries(paragraph string, width int) (lines []string) {
	var label, words string
	flush := func() {
		indent := text.StringWidth(label)
		switch {
		case label != "" && strings.TrimSpace(label) == "": // as it stands: code
			lines = append(lines, label+words)
		case label+words != "":
			lines = append(lines, label+strings.ReplaceAll(wrap(words, width-indent), "\n", "\n"+strings.Repeat(" ", indent)))
		}
	}
	for line := range strings.SplitSeq(strings.ReplaceAll(paragraph, "\t", "    "), "\n") {
		begin := entry.FindString(line)
		indent := strings.TrimSpace(begin) == "" && strings.TrimSpace(label) != "" && len(begin) == text.StringWidth(label)
		if indent || begin == "" && label == "" {
			words += " " + strings.TrimSpace(line)
			continue
		}
		flush()
		label, words = begin, strings.TrimPrefix(line, begin)
	}
	flush()
	return lines
}

// entry is what an entry of a list begins with: its indent, and its label with what separates that from the text.
var entry = regexp.MustCompile(`^ +(?:\S+(?: \S+)* {2,})?`)
