// Package configcmd has the command that shows the settings: config show.
package configcmd

import (
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/config"
)

// NewCmdConfig returns the command config, with the one below it.
func NewCmdConfig(f *factory.Factory) *cobra.Command {
	return cli.Group("config", "Show the settings", f.WithOutput(&cobra.Command{
		Use:   "show",
		Short: "Show every setting, its value and its source",
		Long: `Show every setting, its value and its source: a flag, else the environment, else the configuration
file, else the default. It masks secrets. It also masks the path and the query of http and https URLs, which may be
secrets.`,
		Example: `  prescient config show
  prescient config show --config /etc/prescient/prescient.yaml --output json`,
		Args: cli.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			return output.List(f.Printer, f.Loaded().Entries, table.Row{"KEY", "VALUE", "ORIGIN"},
				func(e config.Entry) table.Row {
					return table.Row{e.Key, e.Value, e.Origin}
				})
		},
	}))
}
