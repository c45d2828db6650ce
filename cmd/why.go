package cmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
)

func newWhy(a *App) *cobra.Command {
	var key jobs.Key
	c := a.withOutput(&cobra.Command{
		Use:   "why ENTITY KEY",
		Short: "Tell the whole story of the checks of an entity",
		Long: `Tell the whole story of the checks of an entity, in order: who asked for them, when and for when; who moved, replaced
or cancelled them; each check with its runner, how late it was, how long it took and its error; how they ended; and of what waits
when it is due, and what stands in its way. All instants are in UTC.

Who is the role, the application_name and, where the application has set one, the actor. Of a row the newest 20 entries
between its beginning and its end are kept.`,
		Example: `  prescient why order 42
  prescient why order 42 --job order.unshipped --output json`,
		Args: exactly("ENTITY", "KEY"),
		RunE: func(c *cobra.Command, args []string) error {
			key.EntityName, key.EntityKey = args[0], args[1]
			return why(c.Context(), a, key)
		},
	})
	c.Flags().StringVar(&key.JobExec, "job", "", "only this `JOB`")
	c.Flags().StringVar(&key.ItemKey, "item", "", "only this `KEY` of those that tell apart two checks of one job on one entity")
	return c
}

func why(ctx context.Context, a *App, key jobs.Key) error {
	return a.withClient(ctx, func(db *sqlx.DB, c *jobs.Client, now time.Time) error {
		events, err := c.Why(ctx, db, key)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			a.warnNoSuchJob(ctx, db, c, key.JobExec)
		}
		views := []eventView{}
		for _, e := range events {
			views = append(views, newEventView(e))
		}
		return a.print(views, func() error {
			if len(views) == 0 {
				of := ""
				if key.JobExec+key.ItemKey != "" {
					of = " of this job and item"
				}
				return a.lines(fmt.Sprintf("nothing is known of %s %s: no check%s waits, and none is in history", key.EntityName, key.EntityKey, of))
			}
			return a.lines(story(events, now)...)
		})
	})
}

// eventView is jobs.Event as JSON.
type eventView struct {
	ID        int64          `json:"id"`
	JobExec   string         `json:"job_exec"`
	ItemKey   string         `json:"item_key"`
	Anonymous bool           `json:"anonymous"`
	What      string         `json:"what"`
	At        *time.Time     `json:"at"` // null: it waits
	Slot      time.Time      `json:"slot"`
	For       *time.Time     `json:"asked_for"` // null: it is not the beginning
	By        string         `json:"by"`
	App       string         `json:"application_name"`
	Actor     string         `json:"actor"`
	Runner    string         `json:"runner"`
	Lateness  *duration.Text `json:"lateness"` // null: there was no check
	Duration  *duration.Text `json:"duration"`
	Error     string         `json:"error"`
	Learned   *jobs.Look     `json:"learned"` // null: the next slot is the one that was asked for
	Run       string         `json:"run"`     // why the slot was opened; empty: it was not, or that is no part of the story
	OpenedAt  *time.Time     `json:"opened_at"`
	ClosedAt  *time.Time     `json:"closed_at"`
	Hindrance string         `json:"hindrance"`
}

func newEventView(e jobs.Event) eventView {
	v := eventView{
		ID: e.ID, JobExec: e.JobExec, ItemKey: e.ItemKey, Anonymous: e.Anonymous, What: e.What, At: timeOrNil(e.At), Slot: e.Slot,
		For: timeOrNil(e.For), By: e.By, App: e.App, Actor: e.Actor, Runner: e.Runner, Error: e.Error, Learned: e.Learned,
		Run: e.Run, OpenedAt: timeOrNil(e.OpenedAt), ClosedAt: timeOrNil(e.ClosedAt), Hindrance: e.Hindrance,
	}
	if e.Ran {
		v.Lateness, v.Duration = new(duration.Text(e.Lateness)), new(duration.Text(e.Duration))
	}
	return v
}

// story is a line for each event, below a heading for each row.
func story(events []jobs.Event, now time.Time) (lines []string) {
	for i, e := range events {
		if i == 0 || e.ID != events[i-1].ID {
			if i > 0 {
				lines = append(lines, "")
			}
			heading := e.JobExec
			if e.ItemKey != "" {
				heading += ", item " + e.ItemKey
			}
			lines = append(lines, strings.Map(printable, heading)+":")
		}
		at := "                    "
		if !e.At.IsZero() {
			at = e.At.Format(time.RFC3339)
		}
		lines = append(lines, at+"  "+strings.Map(printable, sentence(e, now)))
	}
	return lines
}

// sentence says what happened.
func sentence(e jobs.Event, now time.Time) string {
	slot := e.Slot.Format(time.RFC3339)
	switch e.What {
	case "enqueued":
		return fmt.Sprintf("asked for%s, for %s: slot %s", who(e), e.For.Format(time.RFC3339Nano), slot)
	case "next":
		return "checked" + check(e) + ": it asked for another check" + learned(e)
	case "retry":
		return "checked" + check(e) + ", and failed: " + e.Error
	case "deferred":
		return fmt.Sprintf("moved out of slot %s unchecked, by %s", slot, e.Runner)
	case "rescheduled", "pushed_back":
		return fmt.Sprintf("%s out of slot %s%s", strings.ReplaceAll(e.What, "_", " "), slot, who(e))
	case "kept":
		return fmt.Sprintf("asked for again%s, when slot %s had begun: moved to the next", who(e), slot)
	case "width":
		return fmt.Sprintf("moved out of %s onto a grid of another width%s", slot, who(e))
	case "retried":
		return fmt.Sprintf("put back from history%s", who(e))
	case "waiting":
		return "waits for slot " + slot + due(e, now)
	}
	return ended(e, slot)
}

// learned says why the next check is not when it was asked for.
func learned(e jobs.Event) string {
	l := e.Learned
	if l == nil {
		return ""
	}
	text := fmt.Sprintf(" by %s at the latest; next check at %s", l.Latest.Format(time.RFC3339), l.Next.Format(time.RFC3339))
	like := "of " + e.JobExec
	if l.Class != "" {
		like += " of " + l.Class
	}
	if l.Percent == 0 {
		return text + ", since history has next to none " + like + " that was open for so long"
	}
	return text + fmt.Sprintf(", because %d %% of the checks %s that were open for so long have ended by then", l.Percent, like)
}

// ended says how a row ended.
func ended(e jobs.Event, slot string) string {
	text := "ended as " + e.What
	if e.Ran {
		text += ", checked" + check(e)
	} else {
		text += " in slot " + slot
	}
	if e.Error != "" {
		text += ": " + e.Error
	}
	if !e.Ran {
		text += who(e)
	}
	return text
}

// check says how a check went, and what the ledger has of its slot.
func check(e jobs.Event) string {
	text := fmt.Sprintf(" in slot %s by %s, %s after it, for %s", e.Slot.Format(time.RFC3339), e.Runner, spoken.Duration(e.Lateness), spoken.Duration(e.Duration))
	switch {
	case e.Run == "catch_up":
		text += fmt.Sprintf(" (the slot was missed, and caught up on at %s)", e.OpenedAt.Format(time.RFC3339))
	case e.Run != "" && e.OpenedAt.Sub(e.Slot) > time.Minute:
		text += fmt.Sprintf(" (the slot was opened at %s)", e.OpenedAt.Format(time.RFC3339))
	}
	return text
}

// who says who did something.
func who(e jobs.Event) string {
	if e.By == "" {
		return ""
	}
	text := " by " + e.By
	if e.Actor != "" {
		text += " for " + e.Actor
	}
	if e.App != "" {
		text += " (" + e.App + ")"
	}
	return text
}

// due says when a row that waits is due, and what stands in its way.
func due(e jobs.Event, now time.Time) string {
	text := ", in " + spoken.Duration(e.Slot.Sub(now).Round(time.Second))
	if !e.Slot.After(now) {
		text = ", due for " + spoken.Duration(now.Sub(e.Slot).Round(time.Second))
	}
	switch e.Hindrance {
	case "paused":
		text += ", but its job is paused: jobs resume " + e.JobExec
	case "unregistered":
		text += ", but no run of the last 7 days has registered its job"
	case "missed":
		text += ": no run has opened the slot, which catch-up does"
	case "open":
		text += ": the slot is being run, or its runners have died, which status tells"
	case "straggler":
		text += ": it was committed after the slot was closed, and catch-up takes it"
	}
	return text
}
