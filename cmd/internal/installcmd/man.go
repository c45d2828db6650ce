package installcmd

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/factory"
)

func newCmdMan(f *factory.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages of all commands",
		Long: `Write the manual pages of all commands of this binary into a directory, and overwrite the pages that it has.
"man" finds them if the directory is the man1 of a directory in its path. With SOURCE_DATE_EPOCH set, the pages are the
same every time.`,
		Example: `  prescient install man /usr/local/share/man/man1
  man ` + f.Name + `-catch-up`,
		Annotations: map[string]string{cli.NeedsNoConfig: ""},
		Args:        cli.Exactly("DIR"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(c *cobra.Command, args []string) error { return writeMan(c.Root(), f.Name, args[0]) },
	}
}

func writeMan(root *cobra.Command, name, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	asMarkdown(root)
	header := &doc.GenManHeader{Section: "1", Source: name, Manual: name}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return fmt.Errorf("write manual pages: %w", err)
	}
	return nil
}

// block is lines that are indented, which help shows as they are.
var block = regexp.MustCompile(`(?m)(^ {2,}.*(\n|\z))+`)

// asMarkdown makes the indented parts of help what Markdown, which the pages are made of, does not
// fill.
func asMarkdown(c *cobra.Command) {
	c.DisableAutoGenTag = true // its date is not that of the page
	c.Long = block.ReplaceAllStringFunc(c.Long, func(lines string) string {
		return "\n```\n" + strings.TrimSuffix(lines, "\n") + "\n```\n"
	})
	for _, sub := range c.Commands() {
		asMarkdown(sub)
	}
}
