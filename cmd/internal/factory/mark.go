package factory

import "github.com/spf13/cobra"

// The annotations of commands, which Load reads.
const (
	quietInPipes = "quiet-in-pipes"
	everyStore   = "every-store"
	patient      = "patient"
)

// QuietInPipes makes a command silent about success if cron runs it, which would mail it: if no log
// level is set and stderr is no terminal.
func QuietInPipes(c *cobra.Command) *cobra.Command { return mark(c, quietInPipes) }

// EveryStore makes a command work on every store, whatever --store says.
func EveryStore(c *cobra.Command) *cobra.Command { return mark(c, everyStore) }

// Patient makes a command wait for statements that take long; see pgsql.Patient.
func Patient(c *cobra.Command) *cobra.Command { return mark(c, patient) }

// OnStores adds to the help of a command whose work database.Each or database.Keep does.
func OnStores(c *cobra.Command) *cobra.Command {
	c.Long += "\n\nIf the settings list stores, it works on all of them concurrently, or on those of --store."
	return c
}

// mark annotates a command and those below it.
func mark(c *cobra.Command, key string) *cobra.Command {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[key] = "yes"
	for _, sub := range c.Commands() {
		mark(sub, key)
	}
	return c
}
