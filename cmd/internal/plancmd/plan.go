// Package plancmd has the commands that look ahead: plan forecast and plan advise.
package plancmd

import (
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/factory"
)

// NewCmdPlan returns the command plan, with those below it.
func NewCmdPlan(f *factory.Factory) *cobra.Command {
	return cli.Group("plan", "Forecast the slots to come, and advise how often to check",
		newCmdForecast(f), newCmdAdvise(f))
}
