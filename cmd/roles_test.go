package cmd

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/jobs"
)

// Those that need no role go to no database, or to the private one.
func TestItIsKnownOfEveryCommandWhichRoleItNeeds(t *testing.T) {
	t.Parallel()
	without := strings.Fields("help flags json config receivers dev-db spool install_man install_completion jobs_registered migrate_print rules_calendar")
	known := map[string]bool{}
	var walk func(c *cobra.Command, path string)
	walk = func(c *cobra.Command, path string) {
		known[path] = true
		for _, sub := range c.Commands() {
			walk(sub, strings.TrimSpace(path+" "+sub.Name()))
		}
		_, has := database.Roles[path]
		top, _, _ := strings.Cut(path, " ")
		if !has && path != "" && !c.HasSubCommands() && !slices.Contains(without, top) && !slices.Contains(without, strings.ReplaceAll(path, " ", "_")) {
			t.Errorf("%s: enter into database.Roles which role it needs", path)
		}
	}
	walk(New(jobs.NewRegistry()).newLine().root, "")
	for path := range database.Roles {
		if command, _, _ := strings.Cut(path, " --"); !known[command] {
			t.Errorf("there is no command %s", path)
		}
	}
}
