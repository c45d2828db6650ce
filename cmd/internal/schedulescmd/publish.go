package schedulescmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/spoken"
)

func newCmdTrigger(f *factory.Factory) *cobra.Command {
	var flags perform.Flags
	c := f.WithOutput(&cobra.Command{
		Use:   "trigger ID",
		Short: "Do now what a schedule does at each instant; its next instant is unchanged",
		Long: `Do now what a schedule does at each instant: publish its event, send its message, run its statement or
enqueue its job. The schedule may be paused. Its next instant is unchanged. The event or the message goes to the
outbox; a daemon, the next run or "events forward" sends it on. Its id ends in -trigger- and a number, which
distinguishes it from the event of an instant.`,
		Example: `  prescient schedules trigger report-42`,
		Args:    cli.Exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			return perform.Action(c.Context(), f, flags, func(s *action.Store) (action.Action, error) {
				return action.TriggerSchedule{ID: args[0]}, checks.NameDestinations(c.Context(), f, s.DB)
			})
		},
	})
	flags.Add(c, "")
	return c
}

func newCmdBackfill(f *factory.Factory) *cobra.Command {
	var span cli.Span
	var flags perform.Flags
	c := f.WithOutput(&cobra.Command{
		Use:   "backfill ID...",
		Short: "Publish the instants of schedules that have passed",
		Long: `Publish the instants of schedules from --since up to but not including --until. It takes
one schedule after another, the oldest instant first. Use it for instants from before the schedule was
created, or for instants that its misfire policy has dropped. It ends at now, or at the instant that a
run publishes next. Events have the ids that a run gives them. @every has no instants before its anchor, which defaults
to the start in a file, or the time of creation.

The outbox has each instant only once, even beside runs and after a backfill that was killed: instants that it has are
left out. A pruned outbox gets events again, with the same ids.

A backfill is only for schedules that publish events. One with sql, job or notify is refused: "schedules trigger" does
its work once, for now.`,
		Example: `  prescient schedules backfill report-42 --since 2026-01-01 --until 2026-03-01`,
		Args:    cli.AtLeast("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			return perform.With(c.Context(), f, func(s *action.Store) error {
				since, until, err := span.At(s.Ledger.Now())
				if err != nil {
					return err
				}
				return backfill(c.Context(), f, flags, s, seq.Map(args, func(id string) action.BackfillSchedule {
					return action.BackfillSchedule{ID: id, From: since, To: until}
				}))
			})
		},
	})
	span.Flags(c.Flags(), "publish from this instant on", "stop before this instant")
	_ = c.MarkFlagRequired("since")
	_ = c.MarkFlagRequired("until")
	flags.Add(c, "")
	return c
}

// backfill publishes for one schedule after another, or only says so. Nothing is published if one of them is
// misspelt or publishes no events.
func backfill(
	ctx context.Context, f *factory.Factory, flags perform.Flags, s *action.Store, list []action.BackfillSchedule,
) error {
	plans := []action.Plan{}
	for _, a := range list {
		_, err := a.Schedule(ctx, s.Schedules, s.DB)
		var plan action.Plan
		if err == nil && flags.DryRun {
			plan, err = perform.Preview(ctx, s, a)
		}
		if err != nil {
			return err
		}
		plans = append(plans, plan)
	}
	if flags.DryRun {
		return printAll(f, plans, func(p action.Plan) string {
			return strings.Join(append([]string{p.Text}, p.Warnings...), "\n")
		})
	}
	if err := checks.NameDestinations(ctx, f, s.DB); err != nil {
		return err
	}
	done := []action.Backfilled{}
	says := func(b action.Backfilled) string { return b.ID + ": " + b.String() }
	for _, a := range list {
		report, err := perform.Do(ctx, s, a)
		far, _ := report.(action.Backfilled)
		if err != nil {
			return errors.Join(unfinished(ctx, far, err), printAll(f, done, says))
		}
		done = append(done, far)
	}
	return printAll(f, done, says)
}

// printAll prints a sentence for each of a list, or nothing for none.
func printAll[T any](f *factory.Factory, list []T, says func(T) string) error {
	if len(list) == 0 {
		return nil
	}
	return f.Print(list, func() (err error) {
		for _, v := range list {
			err = errors.Join(err, f.Lines(says(v)))
		}
		return err
	})
}

// unfinished returns an error that says how far a backfill came.
func unfinished(ctx context.Context, done action.Backfilled, err error) error {
	if ctx.Err() == nil {
		return fmt.Errorf("%w; %d of its events were published", err, done.Published)
	}
	far := "before the first of its events was published; repeat the command"
	if done.Published > 0 {
		far = fmt.Sprintf("after %d of its events were published, up to the one of %s; continue with --since %s",
			done.Published, spoken.Instant(done.Last), spoken.Instant(done.Last.Add(time.Second)))
	}
	return &exit.Error{Code: exit.Stopped, Err: fmt.Errorf("backfill schedule %q: stopped by a signal %s", done.ID, far)}
}
