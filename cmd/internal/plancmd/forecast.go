package plancmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/forecast"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

type forecastOptions struct {
	ahead  time.Duration
	check  bool
	whatIf whatIf
}

func newCmdForecast(f *factory.Factory) *cobra.Command {
	var o forecastOptions
	c := factory.OnStores(f.WithOutput(&cobra.Command{
		Use:   "forecast",
		Short: "Forecast the coming slots, and which of them will not end in time",
		Long: `Forecast each coming slot: its rows, and how long it will run. Show which slots will not
end before the next one begins, or will break an SLA or a deadline, with what would help and by how
much.

It counts waiting rows in the index, and estimates more than 1,000 of a job in a slot. The rest follows from the past:
the share of a job's rows that comes late, and the rows of slots at that time of day. It adds every coming instant of
recurring schedules. Run times follow from those of past slots. It reads at most 2,000 slots, and a sample of history.

With --check, prints only problems. The exit code is 3 when a slot will not end in time, or will break an SLA or a
deadline.`,
		Example: `  prescient plan forecast
  prescient plan forecast --for 7d --what-if runners=4,width=5m
  prescient plan forecast --check`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if o.ahead == 0 {
				return exit.Usagef("--for 0s: must be positive")
			}
			return database.Look(c.Context(), f, o.run)
		},
	}))
	duration.Var(c.Flags(), &o.ahead, "for", 24*time.Hour, "how far ahead to look")
	c.Flags().BoolVar(&o.check, "check", false, "print only problems, and exit with 3 if there are any")
	c.Flags().Var(&o.whatIf, "what-if",
		"what slots are run with: runners=N, workers=N of each, width=DURATION, with commas between")
	return c
}

// whatIf is a flag that takes pairs.
type whatIf struct {
	forecast.WhatIf
	text string
}

func (w *whatIf) String() string { return w.text }

// Type is the placeholder in help.
func (w *whatIf) Type() string { return "PAIRS" }

// Set parses pairs.
func (w *whatIf) Set(text string) error {
	for pair := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(pair, "=")
		var n cli.Count
		var err error
		switch name {
		case "runners":
			err = n.Set(value)
			w.Runners = int(n)
		case "workers":
			err = n.Set(value)
			w.Workers = int(n)
		case "width":
			w.Width, err = duration.Parse(value)
			if err == nil {
				_, err = grid.New(w.Width)
			}
		default:
			return fmt.Errorf("want pairs such as runners=4, workers=128 or width=5m, and not %q", pair)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	w.text = text
	return w.Validate()
}

func (o *forecastOptions) run(ctx context.Context, f *factory.Factory) error {
	registry, release, err := checks.Definitions(f)
	if err != nil {
		return err
	}
	defer release()
	return database.With(ctx, f, func(db *sqlx.DB, _ pgsql.Setting) error {
		ahead, err := forecast.Compute(ctx, forecast.Config{
			DB: db, Schema: f.Config().Database.Schema, For: o.ahead, Registry: registry, WhatIf: o.whatIf.WhatIf,
		})
		if err != nil {
			return err
		}
		if err := printForecast(f, ahead, o.check); err != nil {
			return err
		}
		if o.check && len(ahead.Findings) > 0 {
			return &exit.Error{Code: exit.Found}
		}
		return nil
	})
}
