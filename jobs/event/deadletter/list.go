package deadletter

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/jobs/egress"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/internal/stored"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Letter is an event that was given up.
type Letter struct {
	event.Event
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

// Filter selects letters. Zero fields do not narrow.
type Filter struct {
	Subject string
	ID      string
	Until   time.Time // letters whose DeadAt is before
}

// args returns the parameters of a statement that takes a subject, an id and an instant.
func (f Filter) args() []any {
	return []any{
		sql.NullString{String: f.Subject, Valid: f.Subject != ""},
		sql.NullString{String: f.ID, Valid: f.ID != ""},
		sql.NullTime{Time: f.Until, Valid: !f.Until.IsZero()},
	}
}

// List is the list of dead letters of a store. It is safe for concurrent use.
type List struct {
	db     *sqlx.DB
	schema pgsql.Schema
}

// NewList returns the list of a store.
func NewList(db pgsql.Pool, schema pgsql.Schema) *List { return &List{pgsql.Sqlx(db), schema} }

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
	return found, pgsql.ExplainMissing(err)
}

// Count is List.Count in a transaction.
func Count(ctx context.Context, tx pgsql.Querier, schema pgsql.Schema, f Filter) (found Counted, err error) {
	var newest sql.NullTime
	err = pgsql.One(ctx, tx, pgsql.EventDeadCount.In(schema), f.args(), &found.Letters, new(sql.NullTime), &newest,
		&found.Digest)
	if err != nil {
		return found, fmt.Errorf("count dead letters: %w", err)
	}
	if newest.Valid {
		found.Until = newest.Time.UTC().Add(time.Microsecond)
	}
	return found, nil
}

// Page returns up to limit letters after a number, in their order.
func (l *List) Page(ctx context.Context, f Filter, after int64, limit int) (page []Letter, err error) {
	err = pgsql.ReadTx(ctx, l.db, func(tx *sqlx.Tx) (err error) {
		page, err = l.read(ctx, tx, pgsql.EventDeadList, f, after, limit)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", pgsql.ExplainMissing(err))
	}
	return page, nil
}

func (l *List) read(
	ctx context.Context, tx *sqlx.Tx, s pgsql.Statement, f Filter, after int64, limit int,
) ([]Letter, error) {
	return pgsql.Collect(ctx, tx, s.In(l.schema), append([]any{after, limit}, f.args()...), Scan)
}

// Scan reads a letter from a row of statement event_dead_list.
func Scan(row *sql.Rows, d *Letter) error {
	err := row.Scan(slices.Concat([]any{&d.Number}, stored.Into(&d.Event),
		[]any{&d.Refusals, &d.Error, &d.RefusedAt, &d.DeadAt})...)
	d.RefusedAt, d.DeadAt = d.RefusedAt.UTC(), d.DeadAt.UTC()
	return err
}

// Sent says what became of letters that were sent again.
type Sent struct {
	Sent    int64
	Refused int64 // again; they stay in the list
	Held    int64 // not sent, because an earlier one of their subject was refused
}

// sendPage is the number of letters of one transaction. They stay locked while they are sent, and a
// run that has to hold back an event of their subjects waits.
const sendPage = 100

// Send sends letters again, through p, in their order, and removes those that p has accepted. p must
// not be a publisher of New. After an error, what was accepted before may be sent once more.
func (l *List) Send(ctx context.Context, p event.Publisher, f Filter) (total Sent, err error) {
	s := sending{list: l, to: p, filter: f, failed: map[string]bool{}}
	for more := true; more; {
		if more, err = s.page(ctx); err != nil {
			return s.total, fmt.Errorf("send dead letters: %w", pgsql.ExplainMissing(err))
		}
	}
	return s.total, nil
}

// sending is a call of Send.
type sending struct {
	list   *List
	to     event.Publisher
	filter Filter
	after  int64           // the number of the last letter so far
	failed map[string]bool // subjects
	total  Sent
}

// page sends the next letters, and reports whether more may follow.
func (s *sending) page(ctx context.Context) (more bool, err error) {
	var page []Letter
	var results []error
	var sent Sent
	err = pgsql.InTx(ctx, s.list.db, func(tx *sqlx.Tx) (err error) { // repeatable: it leaves s as it is
		if page, err = s.list.read(ctx, tx, pgsql.EventDeadTake, s.filter, s.after, sendPage); err != nil {
			return err
		}
		if results, err = s.publish(ctx, page); err != nil {
			return err
		}
		sent, err = s.list.settle(ctx, tx, page, results)
		return err
	})
	if err != nil || len(page) == 0 {
		return false, err
	}
	for n, d := range page {
		if results[n] != nil && d.Subject != "" {
			s.failed[d.Subject] = true
		}
	}
	s.after = page[len(page)-1].Number
	s.total = Sent{s.total.Sent + sent.Sent, s.total.Refused + sent.Refused, s.total.Held + sent.Held}
	return len(page) == sendPage, nil
}

// publish sends a page, and returns the error of each letter. It holds back the letters behind a failed
// one of their subject.
func (s *sending) publish(ctx context.Context, page []Letter) ([]error, error) {
	results := make([]error, len(page))
	var events []event.Event
	var of []int // letters of the events
	for n, d := range page {
		if s.failed[d.Subject] {
			results[n] = event.ErrBlocked
			continue
		}
		events, of = append(events, d.Event), append(of, n)
	}
	if len(events) == 0 {
		return results, nil
	}
	err := s.to.Publish(ctx, events)
	if _, partial := errors.AsType[*event.PartialError](err); err != nil && !partial {
		return nil, err
	}
	for i, err := range event.Errors(err, len(events)) {
		if errors.Is(err, egress.ErrAddress) {
			return nil, err // as for every other letter
		}
		results[of[i]] = err
	}
	return results, nil
}

// settle records what became of the letters of a page.
func (l *List) settle(ctx context.Context, tx *sqlx.Tx, page []Letter, results []error) (Sent, error) {
	var sent, refused pq.Int64Array
	var texts pq.StringArray
	for n, d := range page {
		switch {
		case results[n] == nil:
			sent = append(sent, d.Number)
		case !errors.Is(results[n], event.ErrNotSent):
			refused, texts = append(refused, d.Number), append(texts, plain.ErrorText(results[n]))
		}
	}
	if _, err := tx.ExecContext(ctx, pgsql.EventDeadSent.In(l.schema), sent); err != nil {
		return Sent{}, err
	}
	if _, err := tx.ExecContext(ctx, pgsql.EventDeadAgain.In(l.schema), refused, texts); err != nil {
		return Sent{}, err
	}
	held := len(page) - len(sent) - len(refused)
	return Sent{int64(len(sent)), int64(len(refused)), int64(held)}, nil
}

// Prune forgets the refusals of events that are not dead letters and that no check has tried since an
// instant of the database's clock, and returns the number of events. Their checks are gone, such as
// that of a deleted schedule. If an event is tried after all, its refusals are counted from zero.
func (l *List) Prune(ctx context.Context, before time.Time) (n int64, err error) {
	err = pgsql.InTx(ctx, l.db, func(tx *sqlx.Tx) error {
		return tx.QueryRowContext(ctx, pgsql.EventDeadPrune.In(l.schema), before).Scan(&n)
	})
	if err != nil {
		return 0, fmt.Errorf("prune the refusals of events: %w", pgsql.ExplainMissing(err))
	}
	return n, nil
}

// Discard deletes letters, and returns their number. Events that were held back behind them stay in
// the list until they are sent or discarded, too.
func (l *List) Discard(ctx context.Context, f Filter) (n int64, err error) {
	err = pgsql.InTx(ctx, l.db, func(tx *sqlx.Tx) error {
		n, err = Discard(ctx, tx, l.schema, f)
		return err
	})
	return n, pgsql.ExplainMissing(err)
}

// Discard is List.Discard in a transaction.
func Discard(ctx context.Context, tx pgsql.Querier, schema pgsql.Schema, f Filter) (n int64, err error) {
	if err := pgsql.One(ctx, tx, pgsql.EventDeadDiscard.In(schema), f.args(), &n); err != nil {
		return 0, fmt.Errorf("discard dead letters: %w", err)
	}
	return n, nil
}
