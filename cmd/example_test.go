package cmd_test

import (
	"context"
	"time"

	"github.com/prescient-go/prescient/cmd"
	"github.com/prescient-go/prescient/jobs"
)

// A team's binary calls cmd.Main with its registry; a test runs single command lines.
func Example() {
	registry := jobs.NewRegistry()
	registry.Register("order.unshipped", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		return nil, nil
	}), jobs.Timeout(5*time.Second), jobs.Deadline(48*time.Hour))

	app := cmd.New(registry)
	app.Run(context.Background(), []string{"jobs", "registered"})
	// Output:
	// NAME             MAX CHECKS  TIMEOUT  HORIZON  RETRY  DEADLINE  SLA   WITHIN  CONCURRENCY  MISFIRE  FROM  OPTIONS
	// order.unshipped           5  5s       43800h       5  2 days    none  none              0  run      go    -
	//
	// Each rule of the database is a job, too: cmd.test rules list
}
