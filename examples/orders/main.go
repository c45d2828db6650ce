// Command orders is a team's own binary: all commands of prescient with a check of the team's
// linked in, and a few commands of its own.
//
// The check watches orders. One that is not shipped --primary after it was placed raises a primary alert, and at
// --final a final one. To see it live, with slots a minute apart on a database of your own:
//
//	go build -o bin/orders ./examples/orders
//	export XDG_DATA_HOME=$(mktemp -d)    # a private PostgreSQL of its own
//	bin/orders migrate up
//	bin/orders init
//	bin/orders slots set-width 1m
//	bin/orders place 41 --primary 1m --final 2m
//	bin/orders place 42 --primary 1m --final 2m
//	bin/orders ship 41
//	bin/orders run --catch-up    # once a minute, as cron would
//	bin/orders raised
//
// With --cancel, place asks for both alerts at once, and ship cancels them in its transaction.
// cancel.go says what that costs.
//
// To see what it would have said about the orders of the past, in virtual time:
//
//	bin/orders replay --orders orders.csv --primary 48h --final 120h --out alerts.csv
package main

import (
	"github.com/prescient-go/prescient/cmd"
	"github.com/prescient-go/prescient/jobs"
)

func main() {
	cmd.Main(checks(), initCommand, placeCommand, shipCommand, alertsCommand, replayCommand)
}

// checks returns the checks of the shop whose tables are in the search path.
func checks() *jobs.Registry {
	registry := jobs.NewRegistry()
	registry.Register(unshipped, jobs.InTx(shop{}.checkUnshipped))
	registerAlerts(registry, func() shop { return shop{} })
	return registry
}
