// Command prescient is the stock binary: everything but jobs of its own. See package cmd for how a team adds its jobs.
package main

import (
	"github.com/prescient-go/prescient/cmd"
	"github.com/prescient-go/prescient/jobs"
	_ "github.com/prescient-go/prescient/jobs/event/kafka" // schedules may publish to brokers, too
	_ "github.com/prescient-go/prescient/jobs/event/nats"
)

func main() { cmd.Main(jobs.NewRegistry()) }
