package board

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/deadletter"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/scheduleapi"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// Schedules returns a page of schedules.
func (b *Board) Schedules(ctx context.Context, f schedule.Filter, acted int64) (Schedules, error) {
	if err := cmp.Or(checkPage(&f.Limit), action.CheckWords(f.Prefix, f.After)); err != nil {
		return Schedules{}, err
	}
	if f.State != "" && f.State != schedule.Active && f.State != schedule.Paused && f.State != schedule.Ended {
		return Schedules{}, &jobs.FieldError{Field: "state", Message: "must be active, paused or ended"}
	}
	key := keyOf("schedules", f.Prefix, f.After, string(f.State), fmt.Sprint(f.Limit))
	return read(ctx, b.source, key, acted, pageAge, func(ctx context.Context, r *reader) (v Schedules, err error) {
		list, more, err := r.store.Page(ctx, r, f)
		if more {
			v.After = &list[len(list)-1].ID
		}
		v.Schedules = seq.Map(list, scheduleapi.NewView)
		return v, err
	})
}

// Schedule returns one schedule, or schedule.ErrNotFound.
func (b *Board) Schedule(ctx context.Context, id string, acted int64) (Schedule, error) {
	if err := action.CheckText("id", id); err != nil {
		return Schedule{}, err
	}
	return read(ctx, b.source, "schedule "+id, acted, pageAge,
		func(ctx context.Context, r *reader) (v Schedule, err error) {
			s, err := r.store.Get(ctx, r, id)
			if err != nil {
				return v, err
			}
			v.Detail = scheduleapi.NewDetail(s, r.grid(), r.now())
			return v, nil
		})
}

// Events returns a page of the outbox, the newest first, and the readers of the outbox. The zero position is the
// beginning.
func (b *Board) Events(ctx context.Context, p Page[outbox.Position], acted int64) (Events, error) {
	if err := checkPage(&p.Limit); err != nil {
		return Events{}, err
	}
	key := keyOf("events", p.After.String(), fmt.Sprint(p.Limit))
	return read(ctx, b.source, key, acted, pageAge, func(ctx context.Context, r *reader) (v Events, err error) {
		var mark any
		if p.After != (outbox.Position{}) {
			mark = fmt.Sprint(p.After.Mark)
		}
		v.Events, err = rows(ctx, r, pg.BoardEvents, []any{p.Limit + 1, mark, p.After.Number},
			func(row *sql.Rows, e *Event) error {
				var position outbox.Position
				err := row.Scan(&position.Mark, &position.Number, &e.ID, &e.Source, &e.Type, &e.Subject,
					pg.UTC(&e.Time), pg.UTC(&e.WrittenAt), &e.Data)
				e.Position = position.String()
				return err
			})
		if err != nil {
			return v, fmt.Errorf("read the outbox: %w", err)
		}
		v.Events, v.After = cutPage(v.Events, p.Limit, func(e Event) string { return e.Position })
		v.Consumers, err = readConsumers(ctx, r)
		return v, err
	})
}

// DeadLetters returns a page of the dead letters, in the order in which they are sent again, after one of a number.
func (b *Board) DeadLetters(ctx context.Context, p Page[int64], acted int64) (DeadLetters, error) {
	if err := checkPage(&p.Limit); err != nil {
		return DeadLetters{}, err
	}
	key := keyOf("dead letters", fmt.Sprint(p.After), fmt.Sprint(p.Limit))
	return read(ctx, b.source, key, acted, pageAge, func(ctx context.Context, r *reader) (v DeadLetters, err error) {
		page, next, err := deadletter.Page(ctx, r, r.schema, deadletter.Filter{}, p.After, p.Limit)
		if next != 0 {
			v.After = new(fmt.Sprint(next))
		}
		v.DeadLetters = seq.Map(page, view.NewDeadLetter)
		return v, err
	})
}

// Actions returns a page of the actions, the newest first, behind one of a number; 0: from the first.
func (b *Board) Actions(ctx context.Context, p Page[int64], acted int64) (Actions, error) {
	if err := checkPage(&p.Limit); err != nil {
		return Actions{}, err
	}
	return read(ctx, b.source, keyOf("actions", fmt.Sprint(p.After), fmt.Sprint(p.Limit)), acted, pageAge,
		func(ctx context.Context, r *reader) (v Actions, err error) {
			v.Actions, err = rows(ctx, r, pg.BoardActions, []any{p.Limit + 1, p.After, lostAfter.Seconds()}, scanDone)
			v.Actions, v.After = cutPage(v.Actions, p.Limit, func(d Done) string { return fmt.Sprint(d.ID) })
			return v, err
		})
}

// cutPage returns the first rows of a list that has one row more than a page if more follow, and then
// the position of the last of them.
func cutPage[T any](list []T, limit int, position func(T) string) (page []T, after *string) {
	if len(list) <= limit {
		return list, nil
	}
	return list[:limit], new(position(list[limit-1]))
}

func scanDone(row *sql.Rows, d *Done) error {
	var lastSign *time.Time
	err := row.Scan(&d.ID, pg.UTC(&d.At), pg.UTC(&d.FinishedAt), &d.ByRole, &d.Actor, &d.What, &d.Target,
		&d.Text, &d.Rows, &d.Slots, &d.Schedules, &d.Events, &d.Outcome, &d.Result, pg.UTC(&lastSign))
	if lastSign != nil {
		d.Outcome, d.Result, d.FinishedAt = Stopped, lost, lastSign
	}
	return err
}
