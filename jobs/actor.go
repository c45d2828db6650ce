package jobs

import (
	"context"
	"fmt"

	"github.com/prescient-go/prescient/internal/tx"
)

// SetActor records, for the rest of a transaction, which user of the application enqueues, moves
// and cancels. The database knows the application only as a role. Command why shows the actor
// beside the role and the application_name. An actor has at most 500 bytes. A longer one is a
// FieldError, and the transaction goes on without it. OwnTx is an error, because it would
// forget the actor at once.
func SetActor(ctx context.Context, tx Tx, actor string) error {
	return setLocal(ctx, tx, "actor", actor)
}

// SetTraceParent records, for the rest of a transaction, the W3C traceparent of what it enqueues. Checks get it as
// FutureJob.TraceParent; package jobs/oteltrace does both for OpenTelemetry. The rules of SetActor hold.
func SetTraceParent(ctx context.Context, tx Tx, traceparent string) error {
	return setLocal(ctx, tx, "traceparent", traceparent)
}

func setLocal(ctx context.Context, db Tx, what, value string) error {
	if db == nil || !tx.Is(db) {
		return fmt.Errorf("set %s: it holds for the rest of a transaction: "+
			"begin one, and give it here and to the calls after it", what)
	}
	if err := checkName(what, value, 0, maxKey); err != nil {
		return fmt.Errorf("set %s: %w", what, err)
	}
	if _, err := db.ExecContext(ctx, "select set_config('prescient_caller.' || $1::text, $2, true)", what,
		value); err != nil {
		return fmt.Errorf("set %s: %w", what, err)
	}
	return nil
}
