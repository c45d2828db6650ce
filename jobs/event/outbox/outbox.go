package outbox

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/internal/stored"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Scheme is that of the only URL of an outbox, "outbox:".
const Scheme = "outbox"

func init() { event.Register(Scheme, open) }

func open(_ context.Context, to *url.URL, cfg event.Config) (event.Publisher, error) {
	if to.String() != Scheme+":" {
		return nil, errors.New(`the URL of the outbox is "outbox:" and nothing more: it is in the database of the jobs`)
	}
	if pgsql.Sqlx(cfg.DB) == nil {
		return nil, errors.New("the outbox needs the database of the jobs")
	}
	return New(cfg.DB, cfg.Schema), nil
}

// Outbox is a table of events. It is safe for concurrent use.
type Outbox struct {
	db     *sqlx.DB
	schema pgsql.Schema
}

var _ event.TxPublisher = (*Outbox)(nil)

// New returns the outbox of a database.
func New(db pgsql.Pool, schema pgsql.Schema) *Outbox { return &Outbox{pgsql.Sqlx(db), schema} }

// Close does nothing: the database is the caller's.
func (o *Outbox) Close() error { return nil }

// Publish writes events in a transaction of its own. If one event is bad, it writes none.
func (o *Outbox) Publish(ctx context.Context, events []event.Event) error {
	return pgsql.InTx(ctx, o.db, func(tx *sqlx.Tx) error { return o.PublishTx(ctx, tx, events) })
}

// PublishTx writes events in a transaction: they exist if and only if it commits. If one event is
// bad, it writes none.
func (o *Outbox) PublishTx(ctx context.Context, tx *sqlx.Tx, events []event.Event) error {
	if len(events) == 0 {
		return nil
	}
	for i, e := range events {
		if err := e.Validate(); err != nil {
			return fmt.Errorf("event %d of %d, id %q: %w", i+1, len(events), e.ID, err)
		}
	}
	if _, err := tx.ExecContext(ctx, pgsql.EventInsert.In(o.schema), stored.Columns(events)...); err != nil {
		return fmt.Errorf("write events to the outbox: %w", pgsql.ExplainMissing(err))
	}
	return nil
}
