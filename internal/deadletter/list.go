package deadletter

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/stored"
	"github.com/prescient-go/prescient/jobs/event"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Letter is an event that was given up.
type Letter struct {
	event.Event
	// Consumer is the destination that refused the event.
	Consumer string
	// Number orders the letters: those of one subject are sent again in this order.
	Number int64
	// Refusals is how often the destination refused the event. 0: it was held back, behind an earlier
	// letter of its subject.
	Refusals int
	// Error is the text of the last refusal.
	Error string
	// RefusedAt is when the event was first refused, or held back, and DeadAt since when it is in the
	// list. Both are of the database's clock, in UTC.
	RefusedAt, DeadAt time.Time
}

// Filter selects letters. Zero fields do not narrow. Retry and Discard refuse the zero Filter.
type Filter struct {
	Consumer string
	Subject  string
	ID       string
	Until    time.Time // letters whose DeadAt is before
	All      bool      // all letters that the other fields select, perhaps every one
}

// check refuses a filter that selects every letter, unless it says so.
func (f Filter) check() error {
	if f == (Filter{}) {
		return errors.New("the filter must name something, or be All")
	}
	return nil
}

// args returns the parameters of a statement that takes a subject, an id, an instant and a consumer.
func (f Filter) args() []any {
	return []any{
		sql.NullString{String: f.Subject, Valid: f.Subject != ""},
		sql.NullString{String: f.ID, Valid: f.ID != ""},
		sql.NullTime{Time: f.Until, Valid: !f.Until.IsZero()},
		sql.NullString{String: f.Consumer, Valid: f.Consumer != ""},
	}
}

// List is the list of dead letters of a store. It is safe for concurrent use.
type List struct {
	db     *sqlx.DB
	schema pgsql.Schema
}

// NewList returns the list of a store.
func NewList(db pgsql.Pool, schema pgsql.Schema) *List { return &List{pg.Sqlx(db), schema} }

// Counted says which letters a filter selects.
type Counted struct {
	Letters int64
	// Until is a Filter.Until that leaves out the letters of later. Zero: there are no letters.
	Until time.Time
	// Digest tells these letters from as many others.
	Digest string
}

// Count counts the letters that a filter selects.
func (l *List) Count(ctx context.Context, f Filter) (found Counted, err error) {
	err = pgsql.ReadTx(ctx, l.db, func(tx *sqlx.Tx) error {
		found, err = Count(ctx, tx, l.schema, f)
		return err
	})
	return found, pg.ExplainMissing(err)
}

// Count is List.Count in a transaction.
func Count(ctx context.Context, tx pg.Querier, schema pgsql.Schema, f Filter) (found Counted, err error) {
	err = pg.One(ctx, tx, pg.EventDeadCount.In(schema), f.args(), &found.Letters, new(sql.NullTime), pg.UTC(&found.Until),
		&found.Digest)
	if err != nil {
		return found, fmt.Errorf("count dead letters: %w", err)
	}
	if !found.Until.IsZero() {
		found.Until = found.Until.Add(time.Microsecond)
	}
	return found, nil
}

// Page returns the first letters after a number, in their order: up to limit, or fewer once their data have
// seq.PageBytes. If more letters follow, next is the number after which the next page begins. Otherwise it is 0.
func (l *List) Page(ctx context.Context, f Filter, after int64, limit int) (page []Letter, next int64, err error) {
	err = pgsql.ReadTx(ctx, l.db, func(tx *sqlx.Tx) (err error) {
		page, next, err = Page(ctx, tx, l.schema, f, after, limit)
		return err
	})
	return page, next, pg.ExplainMissing(err)
}

// Page is List.Page in a transaction.
func Page(
	ctx context.Context, tx pg.Querier, schema pgsql.Schema, f Filter, after int64, limit int,
) (page []Letter, next int64, err error) {
	list, err := read(ctx, tx, schema, f, after, limit+1, seq.PageBytes)
	if err != nil {
		return nil, 0, err
	}
	n := seq.Fitting(list, limit, func(d Letter) int { return len(d.Data) })
	if n < len(list) {
		next = list[n-1].Number
	}
	return list[:n], next, nil
}

// IDs returns the ids of up to limit letters, in their order. It does not read the data.
func (l *List) IDs(ctx context.Context, limit int) (ids []string, err error) {
	err = pgsql.ReadTx(ctx, l.db, func(tx *sqlx.Tx) error {
		list, err := read(ctx, tx, l.schema, Filter{}, 0, limit, nil)
		ids = seq.Map(list, func(d Letter) string { return d.ID })
		return err
	})
	return ids, pg.ExplainMissing(err)
}

// read reads letters with a number of bytes of data. Nil: without data.
func read(
	ctx context.Context, tx pg.Querier, schema pgsql.Schema, f Filter, after int64, limit int, most any,
) ([]Letter, error) {
	args := append(append([]any{after, limit}, f.args()...), most)
	list, err := pg.Collect(ctx, tx, pg.EventDeadList.In(schema), args, Scan)
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	return list, nil
}

// Scan reads a letter from a row of statement event_dead_list or event_dead_due. DeadAt is the zero time if the event
// is no dead letter.
func Scan(row *sql.Rows, d *Letter) error {
	return row.Scan(slices.Concat([]any{&d.Number, &d.Consumer}, stored.Into(&d.Event),
		[]any{&d.Refusals, &d.Error, pg.UTC(&d.RefusedAt), pg.UTC(&d.DeadAt)})...)
}

// Retry lets the forwarders try letters again, in their order, and returns their number. Their refusals count on: a
// letter that is refused once more may be a dead letter again.
func Retry(ctx context.Context, tx pg.Querier, schema pgsql.Schema, f Filter) (n int64, err error) {
	return change(ctx, tx, schema, f, pg.EventDeadRetry, "try dead letters again")
}

// Discard deletes letters, and returns their number. Events that were held back behind them stay in
// the list until they are sent or discarded, too.
func Discard(ctx context.Context, tx pg.Querier, schema pgsql.Schema, f Filter) (n int64, err error) {
	return change(ctx, tx, schema, f, pg.EventDeadDiscard, "discard dead letters")
}

// change executes a statement that changes letters, while no forwarder that has refused them records anything.
func change(
	ctx context.Context, tx pg.Querier, schema pgsql.Schema, f Filter, stmt pg.Statement, what string,
) (n int64, err error) {
	err = f.check()
	if err == nil {
		err = lock(ctx, tx, schema, f)
	}
	if err == nil {
		err = pg.One(ctx, tx, stmt.In(schema), f.args(), &n)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	return n, nil
}

// lock keeps the forwarders that have refused letters of a filter from recording until the transaction ends.
func lock(ctx context.Context, tx pg.Querier, schema pgsql.Schema, f Filter) error {
	_, err := pg.Collect(ctx, tx, pg.EventConsumerLock.In(schema), f.args(), func(row *sql.Rows, name *string) error {
		return row.Scan(name)
	})
	return err
}
