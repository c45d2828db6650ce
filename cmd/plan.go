package cmd

import "github.com/spf13/cobra"

func newPlan(a *App) *cobra.Command {
	return group("plan", "Look ahead: what the slots to come will bring, and when to look instead",
		newForecast(a), newAdvise(a))
}
