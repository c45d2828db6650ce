package stores

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Store is one schema of one database. Name must be set, and DB, or Err if it could not be opened.
// A Store that a Set returns never changes.
type Store struct {
	// Name identifies the store, and decides which keys it gets: a new name means other keys.
	Name string
	// DB is the database, a *sql.DB or a *sqlx.DB. The application opens and closes it.
	DB pgsql.Pool
	// Schema holds the tables. Defaults to "prescient".
	Schema string

	// Client enqueues, cancels and moves in transactions of DB. New and Refresh set it. nil: the
	// store has not answered yet.
	Client *jobs.Client
	// DrainingSince is when the store was marked by Drain, in UTC; zero: it is not being drained.
	// DrainingBy is the actor. Both are as New, or the last successful Refresh, has read them.
	DrainingSince time.Time
	DrainingBy    string
	// Err is the error of the last question to the store; nil: it answered.
	Err error

	id      string
	version int   // of the schema
	asked   int64 // number of the refresh
}

// usable returns the store if it has ever answered.
func (s *Store) usable() (*Store, error) {
	if s.Client == nil {
		return nil, &Error{s.Name, s.Err}
	}
	return s, nil
}

// Error is the error of one store of a Set.
type Error struct {
	Store string // its name
	Err   error
}

// Error returns the name of the store, and the text of Err.
func (e *Error) Error() string { return fmt.Sprintf("store %s: %v", e.Store, e.Err) }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Set holds the stores of an application. It is safe for concurrent use.
type Set struct {
	cfg  jobs.Config
	list atomic.Pointer[[]*Store]

	refreshes atomic.Int64
	mu        sync.Mutex // guards changes of list
}

// New returns the set of some stores. Their Clients use cfg, except its schema. New asks each
// store. If a store does not answer, or lacks a schema of this version, New logs a warning and
// Refresh asks again: Route would choose wrongly without it. Returns an error if no store answers.
func New(ctx context.Context, list []Store, cfg jobs.Config) (*Set, error) {
	s := &Set{cfg: cfg}
	var stores []*Store
	for _, store := range list {
		switch {
		case store.Name == "" || pg.Sqlx(store.DB) == nil && store.Err == nil:
			return nil, fmt.Errorf("store %d of %d, %q: Name and DB must be set", len(stores)+1, len(list), store.Name)
		case slices.ContainsFunc(stores, func(other *Store) bool { return other.Name == store.Name }):
			return nil, fmt.Errorf("two stores have the name %s", store.Name)
		}
		stores = append(stores, &Store{Name: store.Name, DB: store.DB, Schema: store.Schema, Err: store.Err})
	}
	if len(stores) == 0 {
		return nil, errors.New("there are no stores")
	}
	s.list.Store(&stores)
	err := s.Refresh(ctx)
	if !slices.ContainsFunc(*s.list.Load(), func(s *Store) bool { return s.Client != nil }) {
		return nil, err
	}
	for _, store := range *s.list.Load() {
		if store.Err != nil {
			s.logger().WarnContext(ctx, "a store does not answer", "store", store.Name, "error", store.Err)
		}
	}
	return s, nil
}

func (s *Set) logger() *slog.Logger {
	if s.cfg.Logger != nil {
		return s.cfg.Logger
	}
	return slog.Default()
}

// All yields the stores in the order in which New got them, also those that do not answer.
func (s *Set) All() iter.Seq[*Store] { return slices.Values(*s.list.Load()) }

// Refresh asks each store again whether it is being drained. Call it every minute or so. It waits
// at most 10 seconds, and returns the errors of stores that do not answer; their state stays as it
// was. If ctx is cancelled, the state of all stores stays.
func (s *Set) Refresh(ctx context.Context) error {
	after := s.refresh(ctx)
	var errs []error
	for _, store := range after {
		if store.Err != nil {
			errs = append(errs, &Error{store.Name, store.Err})
		}
	}
	return errors.Join(errs...)
}

// refresh returns the stores as they have answered to this call. The answer to a later call wins,
// even if it comes first.
func (s *Set) refresh(ctx context.Context) []*Store {
	nth := s.refreshes.Add(1)
	before := *s.list.Load()
	answers := make([]*Store, len(before))
	var all sync.WaitGroup
	for i, store := range before {
		all.Go(func() {
			answers[i] = s.ask(ctx, *store)
			answers[i].asked = nth
		})
	}
	all.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	known, before := slices.Clone(answers), *s.list.Load()
	for i, store := range known {
		if before[i].asked > nth || store.Err != nil && before[i].Client != nil &&
			errors.Is(ctx.Err(), context.Canceled) {
			known[i] = before[i]
		}
	}
	s.list.Store(&known)
	return answers
}

// ask returns a store with its current state.
func (s *Set) ask(ctx context.Context, store Store) *Store {
	if pg.Sqlx(store.DB) == nil {
		return &store
	}
	store.Err = within(ctx, askTimeout, func(ctx context.Context) (err error) {
		if store.Client == nil {
			cfg := s.cfg
			cfg.Schema = store.Schema
			store.Client, err = jobs.NewClient(ctx, store.DB, cfg)
		}
		if err == nil {
			err = store.read(ctx)
		}
		return err
	})
	return &store
}

// askTimeout bounds a question for a store's settings, stateTimeout one for its content. Another
// session may have locked its tables.
const (
	askTimeout   = 10 * time.Second
	stateTimeout = 30 * time.Second
)

// within calls fn with a timeout, and explains the error if the time ran out.
func within(ctx context.Context, most time.Duration, fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("it has not answered for %s", most))
	defer cancel()
	err := fn(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

// read reads the id of the store, and whether it is being drained.
func (s *Store) read(ctx context.Context) error {
	var id, by string
	var since time.Time
	var version int
	err := pgsql.ReadTx(ctx, s.DB, func(tx *sqlx.Tx) error {
		return pg.One(ctx, tx, s.in(pg.StoreRead), nil, &id, pg.UTC(&since), &by, &version)
	})
	if err != nil {
		return pg.ExplainMissing(err)
	}
	s.id, s.version, s.DrainingBy, s.DrainingSince = id, version, by, since
	return nil
}

func (s *Store) in(stmt pg.Statement) string { return stmt.In(pgsql.Schema(s.Schema)) }
