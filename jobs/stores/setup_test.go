package stores_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/stores"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// now is the clock of every test, in the slot of noon.
var now = time.Date(2030, time.March, 1, 12, 7, 0, 0, time.UTC)

func clock() time.Time { return now }

// slot returns the n-th slot after noon.
func slot(n int) time.Time { return grid.Default.Add(grid.Default.Floor(now), n) }

// check is a job that is fit to be enqueued, on the entity "order <key>".
func check(key string, at time.Time) jobs.Request {
	j := jobs.Request{JobExec: "remind", EntityName: "order", EntityKey: key}
	j.CheckAt = at
	return j
}

// world is some stores: a is a database of its own, and b and c are two schemas of another one.
type world struct {
	t   *testing.T
	set *stores.Set
	a   *stores.Store
	b   *stores.Store
	c   *stores.Store
}

func setup(t *testing.T) *world {
	t.Helper()
	one, other := pgtest.New(t), pgtest.New(t)
	if err := pgsql.Migrate(t.Context(), other, "shard"); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t}
	w.set = newSet(t, stores.Store{Name: "a", DB: one}, stores.Store{Name: "b", DB: other}, stores.Store{Name: "c", DB: other, Schema: "shard"})
	w.a, w.b, w.c = w.store("a"), w.store("b"), w.store("c")
	return w
}

func newSet(t *testing.T, list ...stores.Store) *stores.Set {
	t.Helper()
	set, err := stores.New(t.Context(), list, jobs.Config{Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func (w *world) store(name string) *stores.Store {
	w.t.Helper()
	store, err := w.set.Get(name)
	if err != nil {
		w.t.Fatal(err)
	}
	return store
}

func (w *world) enqueue(s *stores.Store, list ...jobs.Request) {
	w.t.Helper()
	if _, err := s.Client.EnqueueMany(w.t.Context(), jobs.OwnTx(s.DB), list); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) move(what stores.Move) stores.Moved {
	w.t.Helper()
	moved, err := w.set.Move(w.t.Context(), what)
	if err != nil {
		w.t.Fatal(err)
	}
	return moved
}

func (w *world) drain(name string) {
	w.t.Helper()
	if changed, err := w.set.Drain(w.t.Context(), name, "me"); !changed || err != nil {
		w.t.Fatal(changed, err)
	}
}

// waiting are the keys that wait in a store, and their slots.
func (w *world) waiting(s *stores.Store) map[string]time.Time {
	w.t.Helper()
	list, err := seq.Collect(admin.New(s.Client).List(w.t.Context(), s.DB, admin.Filter{Limit: 100_000}))
	if err != nil {
		w.t.Fatal(err)
	}
	rows := map[string]time.Time{}
	for _, j := range list {
		rows[j.EntityKey] = j.NextCheckAt
	}
	if len(rows) < len(list) {
		w.t.Errorf("store %s has %d rows of %d keys", s.Name, len(list), len(rows))
	}
	return rows
}

// exec runs a statement in the schema of a store.
func exec(t testing.TB, s *stores.Store, query string, args ...any) {
	t.Helper()
	err := pgsql.InTx(context.WithoutCancel(t.Context()), s.DB, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(t.Context(), pg.NewStatement(query).In(pgsql.Schema(s.Schema)), args...)
		return err
	})
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", query, err))
	}
}

// get reads one value from the schema of a store.
func get[T any](t testing.TB, s *stores.Store, query string, args ...any) (v T) {
	t.Helper()
	err := pgsql.ReadTx(t.Context(), s.DB, func(tx *sqlx.Tx) error {
		return tx.GetContext(t.Context(), &v, pg.NewStatement(query).In(pgsql.Schema(s.Schema)), args...)
	})
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", query, err))
	}
	return v
}
