package stores

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	pgsql "github.com/prescient-go/prescient/sql"
)

// Drain marks a store in its own settings, so that ByKey chooses others as soon as each Set is refreshed, and Move takes everything out of it.
// by is who says so. It tells whether the store was not being drained yet.
func (s *Set) Drain(ctx context.Context, name, by string) (bool, error) {
	return s.mark(ctx, "drain", name, by, pgsql.StoreDrain, by)
}

// Undrain takes the mark of Drain away, and tells whether it was there. What was moved stays where it is.
func (s *Set) Undrain(ctx context.Context, name, by string) (bool, error) {
	return s.mark(ctx, "undrain", name, by, pgsql.StoreUndrain)
}

func (s *Set) mark(ctx context.Context, verb, name, by string, stmt pgsql.Statement, args ...any) (changed bool, err error) {
	store, err := s.For(name)
	if err == nil {
		err = store.send(ctx, by, stmt, args, func(*sql.Rows) error {
			changed = true
			return nil
		})
	}
	if err != nil {
		return false, fmt.Errorf("%s store %s: %w", verb, name, err)
	}
	_ = s.Refresh(ctx) // others may not answer
	return changed, nil
}

// Counted is how far a State counts.
const Counted = 10_000

// State is what there is in a store. Numbers go up to Counted.
type State struct {
	Waiting   int64     // rows
	Schedules int64     // recurring ones, also those that do not wait
	Leaving   int64     // rows that were given to other stores, and do not wait there yet: a move goes on, or was left
	Arriving  int64     // copies of rows of other stores, likewise
	OpenSlots int64     // slots that were opened and not closed
	Unread    bool      // a consumer has not acknowledged all of the outbox
	LastSlot  time.Time // the newest in the ledger, in UTC; zero: there is none
}

// Empty tells whether nothing is left that anybody waits for: with a store that is being drained, it may be taken away.
func (s State) Empty() bool {
	return s.Waiting+s.Schedules+s.Leaving+s.Arriving+s.OpenSlots == 0 && !s.Unread
}

// State reads what there is in the store. It is an error where that takes longer than half a minute.
func (s *Store) State(ctx context.Context) (State, error) {
	var state State
	var last sql.NullTime
	err := within(ctx, stateTimeout, func(ctx context.Context) error {
		if pgsql.Sqlx(s.DB) == nil {
			return s.Err
		}
		return pgsql.ReadTx(ctx, s.DB, func(tx *sqlx.Tx) error {
			return pgsql.One(ctx, tx, s.in(pgsql.StoreState), []any{Counted}, &state.Waiting, &state.Schedules, &state.Leaving, &state.Arriving,
				&state.OpenSlots, &state.Unread, &last)
		})
	})
	if last.Valid {
		state.LastSlot = last.Time.UTC()
	}
	if err != nil {
		return state, fmt.Errorf("read the state of store %s: %w", s.Name, pgsql.ExplainMissing(err))
	}
	return state, nil
}
