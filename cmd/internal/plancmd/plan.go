// Package plancmd has the commands that look ahead: plan forecast and plan advise.
package plancmd

import (
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/factory"
)

// NewCmdPlan returns the command plan, with those below it.
func NewCmdPlan(f *factory.Factory) *cobra.Command {
	return cli.Group("plan", "Look ahead: what the slots to come will bring, and when to look instead",
		newCmdForecast(f), newCmdAdvise(f))
}
