package jobs

import (
	"context"
	"fmt"

	"github.com/prescient-go/prescient/internal/tx"
)

// SetActor says for the rest of a transaction who it is that enqueues, moves and cancels: a user of the application,
// which the database knows only as a role. It is kept beside the role and the application_name, for Why. It has up to 500
// bytes; of one that is refused, by a FieldError, the transaction knows nothing, and goes on. A pool is an error: it would
// forget the actor at once.
func SetActor(ctx context.Context, tx DB, actor string) error {
	return setTrace(ctx, tx, "actor", actor)
}

// SetTraceParent says for the rest of a transaction which trace what it enqueues belongs to, as a W3C traceparent. The checks
// are given it as FutureJob.TraceParent; package jobs/oteltrace does both for OpenTelemetry. The same rules hold as for SetActor:
// it may come from a request.
func SetTraceParent(ctx context.Context, tx DB, traceparent string) error {
	return setTrace(ctx, tx, "parent", traceparent)
}

func setTrace(ctx context.Context, db DB, what, value string) error {
	if db == nil || !tx.Is(db) {
		return fmt.Errorf("set %s of the trace: it holds for the rest of a transaction: begin one, and give it here and to the calls after it", what)
	}
	if err := checkName(what, value, 0, maxKey); err != nil {
		return fmt.Errorf("set %s of the trace: %w", what, err)
	}
	if _, err := db.ExecContext(ctx, "select set_config('prescient_trace.' || $1::text, $2, true)", what, value); err != nil {
		return fmt.Errorf("set %s of the trace: %w", what, err)
	}
	return nil
}
