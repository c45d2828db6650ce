package slots

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	pgsql "github.com/prescient-go/prescient/sql"
)

// Kind is why a slot was opened.
type Kind string

// The kinds.
const (
	KindRun     Kind = "run"
	KindCatchUp Kind = "catch_up"
)

// State is the state of a slot in the ledger. A slot without a ledger row is StateMissed once the next has begun.
type State string

// The states.
const (
	StateOpen   State = "open"
	StateDone   State = "done"
	StateMissed State = "missed"
)

// ledger is one runner's hold on one slot: the statements on slot_run and slot_lease. All methods commit.
type ledger struct {
	db      *sqlx.DB
	schema  pgsql.Schema
	slot    time.Time
	runner  string
	lease   time.Duration
	horizon string // number of a transaction after the slot was opened; set by open
}

// claim is a shard that a runner holds.
type claim struct {
	shard   int16
	token   int64
	expired bool // taken over from a runner that was not heard of
	// settled: the transactions from before the slot was opened had ended before the shard was read. Only they bring
	// rows into the slot, but for a statement that chose the slot just before it began and came to write just after.
	settled bool
	gone    int64 // for close: no row with an id up to this one is left; 0: nothing is known
}

// open opens the slot, or joins it when it is open. With stragglers it opens a slot that is done for the rows that
// were committed after it was closed.
func (l *ledger) open(ctx context.Context, kind Kind, stragglers bool) (state State, planned int64, err error) {
	err = pgsql.InTx(ctx, l.db, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, pgsql.SlotIndexOnly); err != nil {
			return err
		}
		err := tx.QueryRowContext(ctx, pgsql.SlotOpen.In(l.schema), l.slot, kind).Scan(&state, &planned)
		if stragglers && errors.Is(err, sql.ErrNoRows) {
			err = tx.QueryRowContext(ctx, pgsql.SlotReopen.In(l.schema), l.slot).Scan(&state, &planned)
		}
		if errors.Is(err, sql.ErrNoRows) {
			err = tx.QueryRowContext(ctx, pgsql.SlotState.In(l.schema), l.slot).Scan(&state, &planned)
		}
		if err != nil || state != StateOpen {
			return err
		}
		return tx.QueryRowContext(ctx, pgsql.SlotHorizon.In(l.schema)).Scan(&l.horizon)
	})
	if err != nil {
		return "", 0, fmt.Errorf("open slot %s: %w", l.slot.Format(time.RFC3339), err)
	}
	return state, planned, nil
}

// claim takes up to limit shards that are free or whose lease has expired.
func (l *ledger) claim(ctx context.Context, limit int) ([]claim, error) {
	var claims []claim
	err := pgsql.InTx(ctx, l.db, func(tx *sqlx.Tx) error {
		var err error
		args := []any{l.slot, limit, l.runner, l.lease.Microseconds(), nullable(l.horizon)}
		claims, err = pgsql.Collect(ctx, tx, pgsql.LeaseClaim.In(l.schema), args, func(row *sql.Rows, c *claim) error {
			return row.Scan(&c.shard, &c.token, &c.expired, &c.settled)
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim shards of slot %s: %w", l.slot.Format(time.RFC3339), err)
	}
	return claims, nil
}

// settled tells whether claims would be settled now. They are, if none of their rows was read yet.
func (l *ledger) settled(ctx context.Context) (yes bool, err error) {
	err = pgsql.InTx(ctx, l.db, func(tx *sqlx.Tx) error {
		return tx.QueryRowContext(ctx, pgsql.SlotSettled.In(l.schema), l.horizon).Scan(&yes)
	})
	return yes, err
}

// renew extends the leases and returns the shards that are still held.
func (l *ledger) renew(ctx context.Context, claims []claim) ([]int16, error) {
	return l.shards(ctx, "renew leases", pgsql.LeaseRenew, claims, l.lease.Microseconds())
}

// release hands shards back before they are done.
func (l *ledger) release(ctx context.Context, claims []claim) error {
	_, err := l.shards(ctx, "hand back shards", pgsql.LeaseRelease, claims)
	return err
}

// shards runs a statement that takes the claims of this slot and returns shards.
func (l *ledger) shards(ctx context.Context, verb string, stmt pgsql.Statement, claims []claim, args ...any) ([]int16, error) {
	var shards []int16
	err := pgsql.InTx(ctx, l.db, func(tx *sqlx.Tx) error {
		var err error
		shards, err = l.shardsTx(ctx, tx, stmt, claims, args...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s of slot %s: %w", verb, l.slot.Format(time.RFC3339), err)
	}
	return shards, nil
}

func (l *ledger) shardsTx(ctx context.Context, tx *sqlx.Tx, stmt pgsql.Statement, claims []claim, args ...any) ([]int16, error) {
	numbers, tokens := make([]int64, len(claims)), make([]int64, len(claims))
	for i, c := range claims {
		numbers[i], tokens[i] = int64(c.shard), c.token
	}
	args = append([]any{l.slot, pq.Array(numbers), pq.Array(tokens)}, args...)
	return pgsql.Collect(ctx, tx, stmt.In(l.schema), args, func(row *sql.Rows, shard *int16) error {
		return row.Scan(shard)
	})
}

// close closes those of the shards that have no rows left, and returns them. The last shard closes the slot.
func (l *ledger) close(ctx context.Context, claims []claim) (closed []int16, done bool, err error) {
	gone := make([]int64, len(claims))
	for i, c := range claims {
		gone[i] = c.gone
	}
	err = pgsql.InTx(ctx, l.db, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, pgsql.SlotIndexOnly); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, pgsql.SlotLock.In(l.schema), l.slot); err != nil {
			return err
		}
		var err error
		if closed, err = l.shardsTx(ctx, tx, pgsql.ShardClose, claims, pq.Array(gone)); err != nil || len(closed) == 0 {
			return err
		}
		var state State
		err = tx.QueryRowContext(ctx, pgsql.SlotClose.In(l.schema), l.slot).Scan(&state)
		done = err == nil
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("close shards of slot %s: %w", l.slot.Format(time.RFC3339), err)
	}
	return closed, done, nil
}

// ask asks those that hold shards for a share.
func (l *ledger) ask(ctx context.Context) error {
	return pgsql.InTx(ctx, l.db, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, pgsql.SlotAsk.In(l.schema), l.slot)
		return err
	})
}

// asked tells how often somebody has asked.
func (l *ledger) asked(ctx context.Context) (n int64, err error) {
	err = pgsql.InTx(ctx, l.db, func(tx *sqlx.Tx) error {
		return tx.QueryRowContext(ctx, pgsql.SlotAsked.In(l.schema), l.slot).Scan(&n)
	})
	return n, err
}

// held tells how many lease rows are left, and how long until the first of their leases ends.
func (l *ledger) held(ctx context.Context) (n int, ends time.Duration, err error) {
	var micros int64
	err = pgsql.InTx(ctx, l.db, func(tx *sqlx.Tx) error {
		return tx.QueryRowContext(ctx, pgsql.LeaseWait.In(l.schema), l.slot).Scan(&n, &micros)
	})
	return n, time.Duration(micros) * time.Microsecond, err
}
