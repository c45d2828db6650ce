package schedulescmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
	pgsql "github.com/prescient-go/prescient/sql"
)

// withPublishing is withSchedules for commands that publish their events.
func withPublishing(
	ctx context.Context, f *factory.Factory, fn func(db *sqlx.DB, s *schedule.Store, to *schedule.PublishConfig) error,
) error {
	return database.WithSchedules(ctx, f, func(db *sqlx.DB, s *schedule.Store) error {
		if err := checks.NameDestinations(ctx, f, db); err != nil {
			return err
		}
		publisher := outbox.New(db, f.Schema())
		return fn(db, s, &schedule.PublishConfig{Publisher: publisher, Source: f.Config().Events.Source, Schema: f.Schema()})
	})
}

// triggeredView describes the effect of a trigger, as JSON.
type triggeredView struct {
	ID    string    `json:"id"`
	Event string    `json:"event,omitempty"` // the id of the event
	Time  time.Time `json:"time,omitzero"`   // of the event
	Check string    `json:"check,omitempty"` // the item key of the enqueued check
	Rows  *int64    `json:"rows"`            // of the statement
}

func newCmdTrigger(f *factory.Factory) *cobra.Command {
	return f.WithOutput(&cobra.Command{
		Use:   "trigger ID",
		Short: "Do now what a schedule does at each instant; its next instant is unchanged",
		Long: `Do now what a schedule does at each instant: publish its event, send its message, run its statement or
enqueue its job. The schedule may be paused. Its next instant is unchanged. The event or the message goes to the
outbox; a daemon, the next run or "events forward" sends it on. Its id ends in -trigger- and a number, which
distinguishes it from the event of an instant.`,
		Example: `  prescient schedules trigger report-42`,
		Args:    cli.Exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			return withPublishing(c.Context(), f, func(db *sqlx.DB, s *schedule.Store, to *schedule.PublishConfig) error {
				done, err := s.Trigger(c.Context(), db, to, args[0])
				if err != nil {
					return err
				}
				view := triggeredView{ID: args[0]}
				switch {
				case done.Event != nil:
					view.Event, view.Time = done.Event.ID, done.Event.Time
				case done.Act.Job != "":
					view.Check = done.ID
				default:
					view.Rows = &done.Rows
				}
				return f.Say(view, done.String())
			})
		},
	})
}

// backfilledView is the result of a backfill for one schedule, as JSON.
type backfilledView struct {
	ID        string    `json:"id"`
	Published int64     `json:"published"`
	Present   int64     `json:"present"`
	Until     time.Time `json:"until"`
}

func newCmdBackfill(f *factory.Factory) *cobra.Command {
	var span cli.Span
	c := f.WithOutput(&cobra.Command{
		Use:   "backfill ID...",
		Short: "Publish the instants of schedules that have passed",
		Long: `Publish the instants of schedules from --since up to but not including --until. It takes
one schedule after another, the oldest instant first. Use it for instants from before the schedule was
created, or for instants that its misfire policy has dropped. It ends at now, or at the instant that a
run publishes next. Events have the ids that a run gives them. @every has no instants before its anchor,
which defaults to the time of creation.

The outbox has each instant only once, even beside runs and after a backfill that was killed: instants that it has are
left out. A pruned outbox gets events again, with the same ids.`,
		Example: `  prescient schedules backfill report-42 --since 2026-01-01 --until 2026-03-01`,
		Args:    cli.AtLeast("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			var since, until time.Time
			err := database.With(c.Context(), f, func(_ *sqlx.DB, setting pgsql.Setting) (err error) {
				since, until, err = span.At(setting.Now())
				return err
			})
			if err != nil {
				return err
			}
			return backfillSchedules(c.Context(), f, args, since, until)
		},
	})
	span.Flags(c.Flags(), "publish from this instant on", "stop before this instant")
	_ = c.MarkFlagRequired("since")
	_ = c.MarkFlagRequired("until")
	return c
}

func backfillSchedules(ctx context.Context, f *factory.Factory, ids []string, from, until time.Time) error {
	return withPublishing(ctx, f, func(db *sqlx.DB, s *schedule.Store, to *schedule.PublishConfig) error {
		for _, id := range ids { // nothing is published if one of them is misspelt
			if _, err := s.Get(ctx, db, id); err != nil {
				return err
			}
		}
		views := []backfilledView{}
		var failed error
		for _, id := range ids {
			done, err := s.Backfill(ctx, db, to, id, from, until)
			if err != nil {
				failed = unfinished(ctx, id, done, err)
				break
			}
			views = append(views, backfilledView{id, done.Published, done.Present, done.Until})
		}
		if len(views) == 0 {
			return failed
		}
		header := table.Row{"ID", "PUBLISHED", "PRESENT", "UNTIL"}
		return errors.Join(failed, output.List(f.Printer, views, header, func(v backfilledView) table.Row {
			return table.Row{v.ID, v.Published, v.Present, v.Until}
		}))
	})
}

// unfinished returns an error that says how far a backfill came.
func unfinished(ctx context.Context, id string, done schedule.BackfillResult, err error) error {
	if ctx.Err() == nil {
		return fmt.Errorf("%w; %d of its events were published", err, done.Published)
	}
	far := "before the first of its events was published; repeat the command"
	if done.Published > 0 {
		far = fmt.Sprintf("after %d of its events were published, up to the one of %s; continue with --since %s",
			done.Published, spoken.Instant(done.Last), spoken.Instant(done.Last.Add(time.Second)))
	}
	return &exit.Error{Code: exit.Stopped, Err: fmt.Errorf("backfill schedule %q: stopped by a signal %s", id, far)}
}
