package ledger

import (
	"context"
	"database/sql"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
)

// Forgotten is a job that has been paused for long and has due rows.
type Forgotten struct {
	JobExec string
	// Since is when the job was paused, and By who did so.
	Since time.Time
	By    string
	// Due is the slot of the oldest row that is due.
	Due time.Time
	// OfRule reports whether the job is that of a rule.
	OfRule bool
}

// Forgotten lists the jobs that were paused before an instant and have due rows, by name.
func (l *Ledger) Forgotten(ctx context.Context, before time.Time) ([]Forgotten, error) {
	found, err := list(ctx, l, pg.JobForgotten, []any{before, l.Now()}, func(row *sql.Rows, f *Forgotten) error {
		return row.Scan(&f.JobExec, pg.UTC(&f.Since), &f.By, pg.UTC(&f.Due), &f.OfRule)
	})
	return found, wrapped("read which jobs were paused and forgotten", err)
}

// PausedSchedule is a schedule that has been paused for long, with what its instants follow from.
type PausedSchedule struct {
	ID, Crontab, Timezone string
	Anchor                time.Time
	Spread                time.Duration
	Start, End            time.Time // the zero time: no bound
	Exclude               []string
	// Since is when the schedule was paused, and By who did so.
	Since time.Time
	By    string
}

// PausedSchedules lists the schedules that were paused before an instant: the 1,000 that have been paused for longest.
func (l *Ledger) PausedSchedules(ctx context.Context, before time.Time) ([]PausedSchedule, error) {
	found, err := list(ctx, l, pg.ScheduleForgotten, []any{before}, func(row *sql.Rows, s *PausedSchedule) error {
		var spread int64
		err := row.Scan(&s.ID, &s.Crontab, &s.Timezone, pg.UTC(&s.Anchor), &spread, pg.UTC(&s.Start), pg.UTC(&s.End),
			(*pq.StringArray)(&s.Exclude), pg.UTC(&s.Since), &s.By)
		s.Spread = time.Duration(spread) * time.Second
		return err
	})
	return found, wrapped("read which schedules were paused and forgotten", err)
}

// UnknownReceiver is a receiver that rules or schedules notify, and that no run has had in its settings.
type UnknownReceiver struct {
	Name string
	// Of are the rules and the first schedules that notify it.
	Of []string
	// Messages counts those among the newest 10,000 events of the outbox. AtLeast says that older events were not
	// counted. Since is when the oldest of these messages was written; the zero time: Messages has none.
	Messages Count
	Since    time.Time
}

// UnknownReceivers lists the receivers that rules or schedules notify and no run has had in its settings, by name.
func (l *Ledger) UnknownReceivers(ctx context.Context) ([]UnknownReceiver, error) {
	found, err := list(ctx, l, pg.ReceiverUnknown, nil, func(row *sql.Rows, u *UnknownReceiver) error {
		return row.Scan(&u.Name, (*pq.StringArray)(&u.Of), &u.Messages.N, &u.Messages.AtLeast, pg.UTC(&u.Since))
	})
	return found, wrapped("read which receivers no run has", err)
}
