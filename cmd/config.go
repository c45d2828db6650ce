package cmd

import (
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/config"
)

func newConfig(a *App) *cobra.Command {
	return cli.Group("config", "Show the settings", a.withOutput(&cobra.Command{
		Use:   "show",
		Short: "Show every setting, its value and its source",
		Long: `Show every setting, its value and its source: a flag, else the environment, else the configuration
file, else the default. It masks secrets. It also masks the path and the query of http and https URLs, which may be
secrets.`,
		Example: `  prescient config show
  prescient config show --config /etc/prescient/prescient.yaml --output json`,
		Args: cli.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			return printList(a, a.config.Entries, table.Row{"KEY", "VALUE", "ORIGIN"}, func(e config.Entry) table.Row {
				return table.Row{e.Key, e.Value, e.Origin}
			})
		},
	}))
}
