// Package cmd is the command line. A team that links its own jobs gets all of it in its own binary:
//
//	func main() {
//		registry := jobs.NewRegistry()
//		registry.Register("order.unshipped", jobs.Row(unshipped))
//		cmd.Main(registry)
//	}
//
// Runs also know the jobs that the settings bind to a service or a query, and the one of recurring
// schedules. Events may go to the outbox, files and webhooks; to a broker, when its package is
// imported:
//
//	import _ "github.com/prescient-go/prescient/jobs/event/kafka"
//
// A group of commands is a package: cmd/internal/jobscmd has the commands of "prescient jobs". A
// command is an options struct, a constructor that reads it from arguments and flags, and a function
// that does the work. A test gives the constructor a function of its own, to see what was read. No
// command uses another one. They share packages that know no command:
//
//	factory     the program at work on one command line: streams, settings, log, stores and their pools
//	database    connects to each store of a command, does the work in each, and advises about errors
//	perform     opens the store of a command, and does an action or prints its preview
//	checks      binds the jobs of the binary and of the settings, and publishes their events
//	httpserver  what serve and daemon offer over HTTP
//	view        what commands and pages show, as JSON has it
//	cli         flags, arguments and groups
//	output      JSON and tables on stdout, as wide as the terminal, and what several stores print, joined
//	exit        exit codes, and the errors that carry one
//
// stdout is data: a table for people, or JSON for programs, which json.schema.json describes. stderr is
// the log. A terminal shows as much as its width allows, and a pipe gets everything.
package cmd
