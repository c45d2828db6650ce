package cmd

import (
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
)

func newPlan(a *App) *cobra.Command {
	return cli.Group("plan", "Look ahead: what the slots to come will bring, and when to look instead",
		newForecast(a), newAdvise(a))
}
