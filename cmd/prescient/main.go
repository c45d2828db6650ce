// Command prescient is the stock binary: everything but jobs of its own. See package cmd for how a team adds its jobs.
package main

import (
	"github.com/prescient-go/prescient/cmd"
	"github.com/prescient-go/prescient/jobs"
)

func main() { cmd.Main(jobs.NewRegistry()) }
