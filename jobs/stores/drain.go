package stores

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Drain marks a store in its own settings. Route then chooses other stores as soon as each Set is
// refreshed, and Move takes everything out of it. by is recorded as the actor. It returns whether
// the mark is new.
func (s *Set) Drain(ctx context.Context, name, by string) (bool, error) {
	return s.mark(ctx, "drain", name, by, pg.StoreDrain, by)
}

// Undrain removes the mark of Drain, and returns whether it was set. Moved rows stay where they
// are.
func (s *Set) Undrain(ctx context.Context, name, by string) (bool, error) {
	return s.mark(ctx, "undrain", name, by, pg.StoreUndrain)
}

func (s *Set) mark(
	ctx context.Context, verb, name, by string, stmt pg.Statement, args ...any,
) (changed bool, err error) {
	store, err := s.Get(name)
	if err == nil {
		var rows []struct{}
		rows, err = send(ctx, store, by, stmt, args, skip)
		changed = len(rows) > 0
	}
	if err != nil {
		return false, fmt.Errorf("%s store %s: %w", verb, name, err)
	}
	_ = s.Refresh(ctx) // other stores may not answer
	return changed, nil
}

// Counted is the limit up to which a State counts.
const Counted = 10_000

// State counts what is in a store. Numbers go up to Counted.
type State struct {
	Waiting   int64 // rows, without those of Periodic; if it is Counted, there may be more
	Periodic  int64 // rows of periodic functions for a later instant: each store has its own, and Move leaves them
	Rules     int64 // rules: remove them before the store, because Move leaves their rows with their tables
	Schedules int64 // recurring ones, also those that do not wait
	Leaving   int64 // rows given to other stores that do not wait there yet: a move is running, or was interrupted
	Arriving  int64 // copies of rows of other stores, in the same state
	OpenSlots int64 // slots that were opened and not closed
	Unread    bool  // a consumer has not acknowledged all of the outbox
	// events that a destination refused: those that are tried again, and dead letters; and messages that wait for
	// their time, such as those of a digest
	Undelivered int64
	LastSlot    time.Time // the newest in the ledger, in UTC; zero: the ledger is empty
}

// Empty tells whether the store has nothing left to do but the later instants of periodic functions.
// A store that is being drained may then be removed.
func (s State) Empty() bool {
	return s.Waiting+s.Rules+s.Schedules+s.Leaving+s.Arriving+s.OpenSlots+s.Undelivered == 0 && !s.Unread
}

// State reads the state of the store. Returns an error if that takes longer than half a minute.
func (s *Store) State(ctx context.Context) (State, error) {
	var state State
	err := within(ctx, stateTimeout, func(ctx context.Context) error {
		if pg.Sqlx(s.DB) == nil {
			return s.Err
		}
		return pgsql.ReadTx(ctx, s.DB, func(tx *sqlx.Tx) error {
			if _, err := tx.ExecContext(ctx, s.in(pg.SlotIndexOnly)); err != nil {
				return err
			}
			var clock any
			if s.Client != nil { // it is nil if the store has not answered before
				clock = s.Client.Clock(reserved.Caller{})
			}
			return pg.One(ctx, tx, s.in(pg.StoreState), []any{Counted, clock}, &state.Waiting, &state.Periodic,
				&state.Rules, &state.Schedules, &state.Leaving, &state.Arriving, &state.OpenSlots, &state.Unread,
				&state.Undelivered, pg.UTC(&state.LastSlot))
		})
	})
	if state.Waiting < Counted { // the count has not stopped
		state.Waiting -= state.Periodic
	}
	if err != nil {
		return state, fmt.Errorf("read the state of store %s: %w", s.Name, pg.ExplainMissing(err))
	}
	return state, nil
}
