// Package cmd is the command line. A team that links its own jobs gets all of it in its own binary:
//
//	func main() {
//		registry := jobs.NewRegistry()
//		registry.Register("order.unshipped", unshipped)
//		cmd.Main(registry)
//	}
//
// Runs also know the jobs that the settings bind to a service or a query, and the one of recurring schedules (see
// checks.go). Events may go to the outbox, files and webhooks; to a broker, when its package is imported:
//
//	import _ "github.com/prescient-go/prescient/jobs/event/kafka"
//
// Every command is an options struct, a constructor that reads it from arguments and flags (cmd/internal/cli), and a
// function that does the work. A group of commands is a package (cmd/internal/spoolcmd, installcmd, devdbcmd,
// configcmd), or a file of this package. A package gets the program by a factory (cmd/internal/factory), and the files
// share App: the streams, the configuration, the log and the way to the database. The stores of the settings are in
// cmd/internal/multistore.
//
// stdout is data, a table for people or JSON for programs, which docs/json.md describes; stderr is the log. What a terminal
// shows is as wide as it is (cmd/internal/layout, help.go), and a pipe gets everything. The exit codes are in exit.go and
// cmd/internal/exit, and in the help of the root.
package cmd
