package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/periodic"
	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Ahead describes what lies beyond the clock, because it was written while the clock was ahead.
type Ahead struct {
	// Since is the beginning of the ledger, if that lies beyond the next slot: until then no slot is
	// missed. Otherwise zero.
	Since time.Time
	// Last is the last slot of the ledger beyond the clock, and Slots the number of these, counted up to 10,000. A run
	// finds them done. Zero: there are none.
	Last  time.Time
	Slots int64
	// Schedules counts the checks of schedules in these slots. Each such schedule waits until after its slot.
	Schedules int64
	// Periodic counts the rows of periodic functions that were written then. Each waits for an instant after that.
	Periodic int64
}

// By returns how far the ledger lies beyond the slot that has begun last; 0 if it does not.
func (a Ahead) By(current time.Time) time.Duration {
	by := time.Duration(0)
	for _, t := range []time.Time{a.Since, a.Last} {
		if !t.IsZero() {
			by = max(by, t.Sub(current))
		}
	}
	return by
}

// Ahead looks for what lies beyond the clock.
func (l *Ledger) Ahead(ctx context.Context) (Ahead, error) {
	now := l.now()
	found, err := list(ctx, l, pg.LedgerAhead, []any{l.Grid().Floor(now), now}, func(row *sql.Rows, a *Ahead) error {
		return row.Scan(pg.UTC(&a.Since), pg.UTC(&a.Last), &a.Slots, &a.Schedules)
	})
	var a Ahead
	if err == nil && len(found) > 0 {
		a = found[0]
	}
	if !a.Since.IsZero() || !a.Last.IsZero() {
		var rows []periodic.Row
		rows, err = list(ctx, l, pg.PeriodicRows, []any{periodic.Entity, now}, periodic.Scan)
		for _, row := range rows {
			if row.Ahead {
				a.Periodic++
			}
		}
	}
	return a, wrapped("look for what lies beyond the clock", err)
}

// ConsumersAhead lists the consumers of the outbox whose position comes from another server, as after a restore from a
// dump. They get no events until the outbox is renumbered. An empty name says that no reader gets the last event.
func (l *Ledger) ConsumersAhead(ctx context.Context) ([]string, error) {
	type consumer struct {
		name string
		mark uint64
	}
	all, err := list(ctx, l, pg.EventMarks, nil, func(row *sql.Rows, c *consumer) error {
		return row.Scan(&c.name, &c.mark)
	})
	var names []string
	if err == nil && len(all) > 0 {
		_, err = list(ctx, l, pg.EventBounds, nil, func(row *sql.Rows, next *uint64) error {
			err := row.Scan(new(uint64), next)
			for _, c := range all {
				if c.mark >= *next {
					names = append(names, c.name)
				}
			}
			return err
		})
	}
	return names, wrapped("read the consumers of the outbox", err)
}

// DeadLetters returns the number of events that were given up because their destination refused
// them, and since when the oldest is one. It is the zero time if n is 0.
func (l *Ledger) DeadLetters(ctx context.Context) (n int64, since time.Time, err error) {
	_, err = list(ctx, l, pg.EventDeadCount, []any{nil, nil, nil, nil}, func(row *sql.Rows, _ *struct{}) error {
		return row.Scan(&n, pg.UTC(&since), new(sql.NullTime), new(string))
	})
	return n, since, wrapped("count dead letters", err)
}

// Behind is a destination for which events wait.
type Behind struct {
	Name, Address string
	// Waiting counts the events in the outbox, and Refused those that the destination refuses and that are tried again,
	// with the events behind them. Due counts the messages whose time to be sent has passed. Each is counted up to 10,000.
	// Since is when the oldest was written, refused or due.
	Waiting, Refused, Due Count
	Since                 time.Time
	// Refuses says that the destination has refused one of them.
	Refuses bool
	// FailingSince is since when each try has failed. The zero time: the last try did not.
	FailingSince time.Time
	// Error is the error of the last try, or of a refused event.
	Error string
	// Held says that a process sends to the destination.
	Held bool
}

// DestinationsBehind lists the destinations of the outbox for which events wait, by name.
func (l *Ledger) DestinationsBehind(ctx context.Context) ([]Behind, error) {
	found, err := list(ctx, l, pg.EventBehind, nil, func(row *sql.Rows, b *Behind) error {
		return row.Scan(&b.Name, &b.Address, &b.Waiting.N, &b.Waiting.AtLeast, &b.Refused.N, &b.Refused.AtLeast,
			&b.Due.N, &b.Due.AtLeast, &b.Refuses, pg.UTC(&b.Since), pg.UTC(&b.FailingSince), &b.Error, &b.Held)
	})
	return found, wrapped("read which destinations are behind", err)
}

// Unread is a consumer that reads the outbox itself and has not read all of it.
type Unread struct {
	Name string
	// Since is when the oldest event that it has not read was written.
	Since time.Time
	// Bytes is the size of the outbox, with its index.
	Bytes int64
}

// Unread lists the consumers that read the outbox themselves and have not read all of it, by name.
func (l *Ledger) Unread(ctx context.Context) ([]Unread, error) {
	found, err := list(ctx, l, pg.EventUnread, nil, func(row *sql.Rows, u *Unread) error {
		return row.Scan(&u.Name, pg.UTC(&u.Since), &u.Bytes)
	})
	return found, wrapped("read what consumers have not read", err)
}

// Rewind deletes the slots of the ledger that lie beyond the clock, and returns their number. It
// keeps a slot that has a runner. A ledger that begins beyond the clock begins with the current
// slot afterwards. schedule.Store.Rewind does the same for schedules, and the command "slots rewind" for
// periodic functions, too.
func (l *Ledger) Rewind(ctx context.Context) (forgotten int64, err error) {
	now := l.now()
	err = pgsql.InTx(ctx, l.db, func(tx *sqlx.Tx) error {
		return tx.QueryRowContext(ctx, pg.LedgerRewind.In(l.schema), l.Grid().Floor(now), now).Scan(&forgotten)
	})
	return forgotten, wrapped("rewind the ledger", err)
}

func wrapped(verb string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return nil
}
