package stores

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/pg"
)

// Margin is how long before its slot a row can still be moved. With slots of less than two minutes
// it is half of their width, because a schedule of each slot is always nearer to it than a minute.
// Rows nearer to their slot are left to the runs of their store. A batch arrives within a second or
// two, so it is in time, and no run waits for a move.
const Margin = time.Minute

// maxPasses bounds how often Move searches for rows that came, or were changed, while it read.
const maxPasses = 10

// Move selects what to move. Only From must be set.
type Move struct {
	From string
	// To are the stores that rows may go to. By default, rows may go to all stores.
	//
	// If From is being drained, all its rows move: each to the store of To with the highest rank for
	// its key, see Route. Otherwise only those rows move that Route puts into a store of To. That
	// moves the keys of an added store, and leaves each row where applications search for it.
	To []string
	// Field is the field of the payload whose text is the key of a row, if applications choose by a
	// tenant, say. Rows without it stay. Defaults to the entity_key. The key of a schedule is
	// always its id.
	Field string
	// Finish lets Move only finish an earlier move that was interrupted. It needs neither To nor Field.
	Finish bool
	// By is the actor, for timelines.
	By string
}

// Moved counts what was moved. It is correct beside an error, too.
type Moved struct {
	Finished  int64 // rows that an interrupted move had left on their way
	Rows      int64 // rows that were given to other stores
	Schedules int64 // and recurring schedules
	// of all these, rows whose key waited in the other store already: they are in its history
	Replaced  int64
	Cancelled int64               // of all these, rows that were cancelled on their way: they are in its history, too
	To        map[string]int64    // rows and schedules, by store
	Paused    map[string][]string // jobs that were paused in a store, because they are paused in the source
	Keyless   int64               // rows that stay because they lack the field
	// rows that wait in the source, up to Counted: their slots are near, they belong there, they are
	// of a rule or a periodic function, or the transaction that first enqueued their job has not
	// ended; -1: unknown
	Left int64

	changed int
}

// Move moves rows and schedules from one store to other stores while runs and applications go on. It
// first finishes an earlier move that was interrupted. It returns when no row is left to be moved,
// or an error; repeat it then. Each row is in one place, and none is lost.
//
// Rows of rules and of periodic functions stay. A rule watches a table of its own database, and each
// store has its own row of a periodic function.
//
// A store that does not answer delays no other store. Of two concurrent moves from one store, the
// later one goes on, and the other returns an error.
func (s *Set) Move(ctx context.Context, what Move) (Moved, error) {
	m := &mover{set: s, what: what, failed: map[string]bool{}, token: newNumber()}
	m.moved.To, m.moved.Paused, m.moved.Left = map[string]int64{}, map[string][]string{}, -1
	for _, store := range s.refresh(ctx) { // of those that do not answer, only the ones that are needed are an error
		m.stores = append(m.stores, new(*store))
	}
	err := m.begin(ctx)
	if err == nil {
		err = m.finish(ctx)
	}
	for pass := 0; err == nil && !what.Finish && pass < maxPasses; pass++ {
		before := m.moved.Rows + m.moved.Schedules
		m.moved.changed, m.moved.Keyless = 0, 0
		if err = m.schedules(ctx); err == nil {
			err = m.rows(ctx)
		}
		if m.moved.changed == 0 || m.moved.Rows+m.moved.Schedules == before {
			break
		}
	}
	if err == nil {
		var state State
		if state, err = m.source.State(ctx); err == nil {
			m.moved.Left = min(state.Waiting+state.Periodic, Counted)
		}
	}
	if err = errors.Join(append(m.errs, err)...); err != nil {
		return m.moved, fmt.Errorf("move from store %s: %w", what.From, err)
	}
	return m.moved, nil
}

// mover is one Move.
type mover struct {
	set    *Set
	stores []*Store // in their current state
	what   Move
	token  int64
	source *Store
	among  []*Store           // among which keys choose; includes the source if its own rows stay
	copies map[*Store][]int64 // batches that existed before this move, by store
	failed map[string]bool    // names of stores that get nothing more
	errs   []error            // their errors
	moved  Moved
}

// begin finds the stores, refuses two with the same id, and takes over from another move from the
// source.
func (m *mover) begin(ctx context.Context) (err error) {
	if m.source, err = named(m.stores, m.what.From); err != nil {
		return err
	}
	if err := m.movable(m.source); err != nil {
		return err
	}
	targets, err := m.targets()
	if err != nil {
		return err
	}
	switch m.among = chosen(m.stores); {
	case m.what.Finish: // each may be where the earlier move went
		m.among = m.stores
	case len(targets) > 0 && !m.source.DrainingSince.IsZero():
		m.among = targets
	}
	if len(m.among) == 0 {
		return errAllDrained
	}
	for _, store := range slices.Concat(m.among, []*Store{m.source}) {
		if store.Err != nil {
			continue // it matters only if a row goes there
		}
		if err := m.refuseCopy(store); err != nil {
			return err
		}
	}
	if err := m.findCopies(ctx); err != nil {
		return err
	}
	_, err = send(ctx, m.source, m.what.By, pg.StoreClaim, []any{m.token}, skip)
	return err
}

// targets returns the stores of To. Returns an error if rows cannot go to one of them.
func (m *mover) targets() (list []*Store, err error) {
	for _, name := range m.what.To {
		target, err := named(m.stores, name)
		switch {
		case err != nil:
			return nil, err
		case target.Err != nil:
			return nil, &Error{name, target.Err}
		case target == m.source:
			return nil, fmt.Errorf("store %s is where the rows are", name)
		case !target.DrainingSince.IsZero():
			return nil, fmt.Errorf("store %s is being drained itself", name)
		}
		list = append(list, target)
	}
	return list, nil
}

// refuseCopy returns an error for a store that has the id of another one. They are one store that is listed twice, or
// one is a copy: notes of rows on their way would not tell them apart.
func (m *mover) refuseCopy(store *Store) error {
	for _, other := range m.stores {
		if other == store || other.id != store.id {
			continue
		}
		return fmt.Errorf("stores %s and %s are the same schema, or one is a copy of the other: name one of them alone, "+
			"or give the copy a new id, with: update SCHEMA.setting set store = gen_random_uuid()", other.Name, store.Name)
	}
	return nil
}

// byID returns the store with an id, or nil.
func (m *mover) byID(id string) *Store {
	for _, store := range m.stores {
		if store.id == id {
			return store
		}
	}
	return nil
}

// fails excludes a store from the rest of the move.
func (m *mover) fails(store *Store, err error) {
	m.failed[store.Name] = true
	m.errs = append(m.errs, err)
}

// clock returns the parameter that tells statements of a replayed clock.
func (m *mover) clock() any {
	if m.set.cfg.Now == nil {
		return nil
	}
	return m.set.cfg.Now()
}

// near returns the last slot whose rows are left to the runs of the source.
func (m *mover) near() time.Time {
	return m.source.Client.FromNow(min(Margin, m.source.Client.Grid().Width()/2))
}

// rows moves the waiting rows, page by page.
func (m *mover) rows(ctx context.Context) error {
	from := firstAfter(m.near())
	for {
		page, err := m.source.rowsAfter(ctx, from, m.what.Field)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := m.page(ctx, page); err != nil {
			return err
		}
		from = page[len(page)-1]
	}
}

// schedules moves the recurring schedules, except those whose row is near its slot.
func (m *mover) schedules(ctx context.Context) error {
	near := m.near()
	for last := ""; ; {
		page, err := m.source.schedulesAfter(ctx, last)
		if err != nil || len(page) == 0 {
			return err
		}
		last = page[len(page)-1].schedule
		page = slices.DeleteFunc(page, func(i item) bool { return i.version != "" && !i.slot.After(near) })
		if err := m.page(ctx, page); err != nil {
			return err
		}
	}
}

// page moves items to the stores that they belong to. An item that belongs to a store that is not in To stays.
func (m *mover) page(ctx context.Context, page []item) error {
	to := map[*Store][]item{}
	for _, i := range page {
		if i.key == "" {
			m.moved.Keyless++
			continue
		}
		target := choose(m.among, i.key)
		if len(m.what.To) == 0 || slices.Contains(m.what.To, target.Name) {
			to[target] = append(to[target], i)
		}
	}
	for _, target := range m.among {
		if target == m.source || m.failed[target.Name] || len(to[target]) == 0 {
			continue
		}
		if err := m.movable(target); err != nil {
			m.fails(target, err)
			continue
		}
		err := m.transfer(ctx, target, to[target])
		if _, ofSource := errors.AsType[*sourceError](err); ofSource || ctx.Err() != nil {
			return err
		}
		if err != nil {
			m.fails(target, err)
		}
	}
	return nil
}

// movable returns an error if rows cannot be moved to a store.
func (m *mover) movable(target *Store) error {
	if target.Err != nil {
		return &Error{target.Name, target.Err}
	}
	if target.version != m.source.version {
		return fmt.Errorf("store %s has version %d of the schema, and %s has %d: bring both to the same, with: "+
			"prescient migrate up", target.Name, target.version, m.source.Name, m.source.version)
	}
	return nil
}
