package cmd

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/internal/spoken"
)

// explainUsage rewrites the library's message about a command line in plain words.
func explainUsage(c *cobra.Command, text string) string {
	// The library suggests commands over several lines.
	suggestions := regexp.MustCompile(`\n\nDid you mean this\?\n(\t\S+\n)+`)
	unknown := regexp.MustCompile(`^unknown command "([a-z-]+)" for ".*"`)
	required := regexp.MustCompile(`^at least one of the flags in the group \[(.*)\] is required$`)
	missing := regexp.MustCompile(`^required flag\(s\) "(.*)" not set$`)
	number := regexp.MustCompile(`strconv\.(ParseInt|Atoi): parsing "[^"]*": invalid syntax`)
	truth := regexp.MustCompile(`strconv\.ParseBool: parsing "[^"]*": invalid syntax`)
	exclusive := regexp.MustCompile(`^if any flags in the group \[.*\] are set none of the others can be; ` +
		`\[(\S+) (\S+)\] were all set$`)

	if !c.HasSubCommands() { // an argument of a team's own command, which takes none
		argument := regexp.MustCompile(`^unknown command ("(?:[^"\\]|\\.)*") for ".*"$`)
		text = argument.ReplaceAllString(text, "unexpected argument $1: want nothing more")
	}
	if m := unknown.FindStringSubmatch(text); m != nil {
		if below := namedBelow(c, m[1]); len(below) > 0 {
			return m[0] + spoken.DidYouMean(below)
		}
	}
	text = suggestions.ReplaceAllStringFunc(text, func(list string) string {
		return spoken.DidYouMean(strings.Fields(list)[4:])
	})
	text = required.ReplaceAllStringFunc(text, func(list string) string {
		return "give " + oneOf(strings.Fields(required.FindStringSubmatch(list)[1]))
	})
	text = missing.ReplaceAllStringFunc(text, func(list string) string {
		return "missing --" + strings.ReplaceAll(missing.FindStringSubmatch(list)[1], `", "`, " and --")
	})
	text = number.ReplaceAllString(text, "want a whole number")
	text = truth.ReplaceAllString(text, "want true or false")
	return exclusive.ReplaceAllString(text, "--$1 and --$2 exclude each other")
}

// namedBelow returns the subcommands with this name, as a user types them: "install crontab" for
// crontab.
func namedBelow(root *cobra.Command, name string) (list []string) {
	for _, group := range root.Commands() {
		for _, c := range group.Commands() {
			if c.Name() == name {
				list = append(list, group.Name()+" "+name)
			}
		}
	}
	return list
}

// oneOf joins flags with commas, and with "or" before the last one.
func oneOf(flags []string) string {
	last := len(flags) - 1
	if last == 0 {
		return "--" + flags[0]
	}
	return "--" + strings.Join(flags[:last], ", --") + " or --" + flags[last]
}
