package outbox

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/stored"
	"github.com/prescient-go/prescient/internal/tx"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Outbox is a table of events. It is safe for concurrent use.
type Outbox struct {
	db     *sqlx.DB
	schema pgsql.Schema
}

var _ event.TxPublisher = (*Outbox)(nil)

// New returns the outbox of a database.
func New(db pgsql.Pool, schema pgsql.Schema) *Outbox { return &Outbox{pg.Sqlx(db), schema} }

// Publish writes events in a transaction of its own. If one event is bad, it writes none.
func (o *Outbox) Publish(ctx context.Context, events []event.Event) error {
	return pgsql.InTx(ctx, o.db, func(tx *sqlx.Tx) error { return o.PublishTx(ctx, tx, events) })
}

// PublishTx writes events in a transaction of any library, see jobs.Tx: they exist if and only if it commits. An event
// without Source gets that of the store. If one event is bad, it writes none.
func (o *Outbox) PublishTx(ctx context.Context, db jobs.Tx, events []event.Event) error {
	if len(events) == 0 {
		return nil
	}
	for i, e := range events {
		if err := e.ValidateNew(); err != nil {
			return fmt.Errorf("event %d of %d, id %q: %w", i+1, len(events), e.ID, err)
		}
	}
	err := tx.In(ctx, db, func(db tx.DB) error {
		_, err := db.ExecContext(ctx, pg.EventInsert.In(o.schema), stored.Columns(events)...)
		return err
	})
	if err != nil {
		return fmt.Errorf("write events to the outbox: %w", err)
	}
	return nil
}
