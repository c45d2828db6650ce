package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/stored"
	"github.com/prescient-go/prescient/internal/tx"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Stored is an event in the outbox.
type Stored struct {
	event.Event
	Position  Position
	WrittenAt time.Time // by the database's clock, in UTC
}

// Read returns the events after a position, at most limit of them. To go on, give it the position
// of the last one. Nothing means that there is nothing yet; see the package documentation for when
// an event is seen. A *LostError means that some of them were removed; after the zero Position come
// those that are there. ErrNotReadable means that the server has not come to the position, which is
// another server's.
func (o *Outbox) Read(ctx context.Context, after Position, limit int) (list []Stored, err error) {
	err = pgsql.ReadTx(ctx, o.db, func(tx *sqlx.Tx) error {
		list, err = o.readTx(ctx, tx, pg.EventRead, after, limit)
		return err
	})
	return list, err
}

// PageTx is Read in the caller's transaction. It returns at most so many bytes of data, but at least one event.
func (o *Outbox) PageTx(
	_ reserved.Caller, ctx context.Context, tx *sqlx.Tx, after Position, limit int, bytes int64,
) (list []Stored, err error) {
	return o.readTx(ctx, tx, pg.EventPage, after, limit, bytes)
}

func (o *Outbox) readTx(
	ctx context.Context, tx *sqlx.Tx, s pg.Statement, after Position, limits ...any,
) (list []Stored, err error) {
	args := append([]any{fmt.Sprint(after.Mark), after.Number}, limits...)
	list, err = pg.Collect(ctx, tx, s.In(o.schema), args, scan)
	if err == nil && len(list) == 0 && after != (Position{}) {
		err = cmp.Or(o.lost(ctx, tx, after), o.ahead(ctx, tx, after))
	}
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", pg.ExplainMissing(err))
	}
	return list, nil
}

// Newest returns the newest events that Read would return from the beginning, at most limit of
// them, the oldest of them first. A reader that goes on with Read after the last of them misses no
// event. Newest holds all of them in memory.
func (o *Outbox) Newest(ctx context.Context, limit int) (list []Stored, err error) {
	err = pgsql.ReadTx(ctx, o.db, func(tx *sqlx.Tx) error {
		list, err = pg.Collect(ctx, tx, pg.EventNewest.In(o.schema), []any{limit}, scan)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", pg.ExplainMissing(err))
	}
	return list, nil
}

// bounds returns two transaction numbers: all below ended have ended, and the server has not come to next.
func (o *Outbox) bounds(ctx context.Context, tx *sqlx.Tx) (ended, next uint64, err error) {
	err = tx.QueryRowContext(ctx, pg.EventBounds.In(o.schema)).Scan(&ended, &next)
	return ended, next, err
}

// ahead returns ErrNotReadable for a position that the server has not come to.
func (o *Outbox) ahead(ctx context.Context, tx *sqlx.Tx, p Position) error {
	var ahead bool
	err := tx.QueryRowContext(ctx, pg.EventAhead.In(o.schema), fmt.Sprint(p.Mark)).Scan(&ahead)
	if err == nil && ahead {
		return ErrNotReadable
	}
	return err
}

func scan(row *sql.Rows, s *Stored) error {
	return row.Scan(slices.Concat([]any{&s.Position.Mark, &s.Position.Number}, stored.Into(&s.Event),
		[]any{pg.UTC(&s.WrittenAt)})...)
}

// Consumer is a named reader of the outbox.
type Consumer struct {
	Name     string    `json:"consumer"` // of the reader
	Position Position  `json:"position"` // everything up to here is acknowledged
	AckedAt  time.Time `json:"acked_at"` // when it last acknowledged an event; UTC
	// Ahead means that Position is another server's, as after a restore from a dump: the consumer
	// gets no event, and cannot acknowledge one, until migrate up.
	Ahead bool `json:"ahead"`
}

// ErrConsumerAhead is returned for a Consumer that is Ahead.
var ErrConsumerAhead = errors.New("the consumer is at a position that this server has not come to, " +
	"so it gets no events: the position is another server's, as after a restore from a dump. " +
	"Give the outbox positions of this server, which loses nothing")

// ErrNotReadable is returned for a position that lies ahead of what can be read.
var ErrNotReadable = errors.New("the position lies ahead of what can be read: give one that events tail has printed")

// ErrNoConsumer is returned for a consumer that has acknowledged nothing.
var ErrNoConsumer = errors.New("there is no such consumer")

// Ack records that a consumer has dealt with every event up to and including a position, and
// returns how far it is. A consumer that is further stays there; one that is not known yet is made.
// ErrNotReadable is returned for a position that no reader can have come to, and ErrConsumerAhead for a
// consumer that is Ahead.
func (o *Outbox) Ack(ctx context.Context, consumer string, upTo Position) (Consumer, error) {
	c := Consumer{Name: consumer}
	err := checkConsumer(consumer)
	if err == nil {
		err = pgsql.InTx(ctx, o.db, func(tx *sqlx.Tx) error {
			ended, next, err := o.bounds(ctx, tx)
			if err != nil {
				return err
			}
			row := tx.QueryRowContext(ctx, pg.EventAck.In(o.schema), consumer, fmt.Sprint(upTo.Mark), upTo.Number,
				fmt.Sprint(ended), fmt.Sprint(next))
			return row.Scan(&c.Position.Mark, &c.Position.Number, pg.UTC(&c.AckedAt))
		})
	}
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotReadable
		switch known, getErr := o.Consumer(ctx, consumer); {
		case known.Ahead:
			err = ErrConsumerAhead
		case getErr == nil && upTo.compare(known.Position) <= 0: // another Ack has come further meanwhile
			return known, nil
		}
	}
	if err != nil {
		return Consumer{}, fmt.Errorf("acknowledge %s for consumer %q: %w", upTo, consumer, pg.ExplainMissing(err))
	}
	return c, nil
}

// Forget removes a consumer: Prune does not wait for it any more. ErrNoConsumer: there was none.
func (o *Outbox) Forget(ctx context.Context, consumer string) error {
	return pgsql.InTx(ctx, o.db, func(tx *sqlx.Tx) error { return o.ForgetTx(ctx, tx, consumer) })
}

// ForgetTx does the same in the caller's transaction.
func (o *Outbox) ForgetTx(ctx context.Context, db jobs.Tx, consumer string) error {
	err := tx.In(ctx, db, func(db tx.DB) error {
		err := pg.One(ctx, db, pg.EventForget.In(o.schema), []any{consumer}, &consumer)
		if err != nil {
			return err
		}
		_, err = db.ExecContext(ctx, pg.EventForgetDead.In(o.schema), consumer)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNoConsumer
	}
	if err != nil {
		return fmt.Errorf("forget consumer %q: %w", consumer, err)
	}
	return nil
}

// Left counts the events that a consumer has not got yet. It never gets them if it is forgotten.
type Left struct {
	Events  int64 // of the outbox, of the types that it gets; more than MostLeft: there are at least that many
	Refused int64 // that are tried again or are dead letters, and what waits behind them; bounded like Events
	// Destination says that a forwarder sends to it.
	Destination bool
}

// MostLeft is the largest number that Left counts exactly.
const MostLeft = 10_000

// Left returns what a consumer has not got yet. ErrNoConsumer: there is no such consumer.
func (o *Outbox) Left(
	_ reserved.Caller, ctx context.Context, tx *sqlx.Tx, consumer string,
) (left Left, err error) {
	err = tx.QueryRowContext(ctx, pg.EventLeft.In(o.schema), consumer, MostLeft+1).
		Scan(&left.Events, &left.Refused, &left.Destination)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNoConsumer
	}
	if err != nil {
		return left, fmt.Errorf("count what consumer %q has not got: %w", consumer, pg.ExplainMissing(err))
	}
	return left, nil
}

// Consumers lists the consumers of the outbox, sorted by name.
func (o *Outbox) Consumers(ctx context.Context) ([]Consumer, error) { return o.consumers(ctx, nil) }

// Consumer returns one of them, or ErrNoConsumer.
func (o *Outbox) Consumer(ctx context.Context, name string) (Consumer, error) {
	list, err := o.consumers(ctx, name)
	if err != nil {
		return Consumer{}, err
	}
	if len(list) == 0 {
		return Consumer{}, fmt.Errorf("read consumer %q: %w", name, ErrNoConsumer)
	}
	return list[0], nil
}

func (o *Outbox) consumers(ctx context.Context, name any) (list []Consumer, err error) {
	err = pgsql.ReadTx(ctx, o.db, func(tx *sqlx.Tx) error {
		list, err = pg.Collect(ctx, tx, pg.EventConsumers.In(o.schema), []any{name},
			func(row *sql.Rows, c *Consumer) error {
				return row.Scan(&c.Name, &c.Position.Mark, &c.Position.Number, pg.UTC(&c.AckedAt))
			})
		if err != nil {
			return err
		}
		_, next, err := o.bounds(ctx, tx)
		for i := range list {
			list[i].Ahead = list[i].Position.Mark >= next
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list consumers: %w", pg.ExplainMissing(err))
	}
	return list, nil
}

func checkConsumer(name string) error {
	const most = 200
	e := event.Event{ID: name, Source: "-", Type: "-"}
	if len(name) > most || e.Validate() != nil {
		return fmt.Errorf("the name of a consumer must be 1 to %d bytes of printable text", most)
	}
	return nil
}
