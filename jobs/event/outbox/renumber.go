package outbox

import (
	"context"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Renumbered counts the events and consumers to which Renumber has given other positions.
type Renumbered struct{ Events, Consumers int64 }

// Renumber gives positions of this server to the events and consumers of another one, as after a
// restore from a dump. Without it no reader gets these events, because positions begin with
// transaction numbers, which start again on another server. The events come before all others, in
// their order. A consumer then gets the events that it had not acknowledged. A position that a
// reader has kept outside of the database is no longer valid. Idempotent.
//
// It needs the rights of the owner, and does nothing without them if there is nothing to do.
func (o *Outbox) Renumber(_ reserved.Caller, ctx context.Context) (n Renumbered, err error) {
	err = pgsql.InTx(ctx, o.db, func(tx *sqlx.Tx) error {
		return tx.QueryRowContext(ctx, pg.EventRenumber.In(o.schema)).Scan(&n.Events, &n.Consumers)
	})
	if pg.HasState(err, pqerror.InsufficientPrivilege) && !o.anyAhead(ctx) {
		return Renumbered{}, nil
	}
	if err != nil {
		return Renumbered{}, fmt.Errorf("give the outbox positions of this server: %w", pg.ExplainMissing(err))
	}
	return n, nil
}

// anyAhead reports whether a consumer is Ahead, as far as the role may know.
func (o *Outbox) anyAhead(ctx context.Context) bool {
	list, err := o.Consumers(ctx)
	return err == nil && slices.ContainsFunc(list, func(c Consumer) bool { return c.Ahead })
}
