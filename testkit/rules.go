package testkit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Rules applies the rules of a file to the tables of the test, as "prescient rules apply" does.
// From then on, rows of the tables wait, and runs of the kit check them; Events has the events of
// their steps. It may be called again, with another file.
//
// The triggers use the clock of the kit for what is written through kit.DB. Other pools, also that
// of Config.DB, set it for themselves: set prescient_caller.clock = '2026-03-01 13:15Z'. The SQL of a
// rule names all schemas, so its now() is that of the server: use $now.
func (k *Kit) Rules(path string) {
	k.t.Helper()
	in, err := os.Open(path)
	k.must(err)
	file, err := rule.ParseIn(in, filepath.Dir(path))
	k.must(in.Close())
	if err != nil {
		k.t.Fatalf("%s: %v", path, err)
	}
	schema, err := pgsql.ParseSchema(k.schema)
	k.must(err)
	k.learnRules(schema)
	store, err := rulestore.New(k.t.Context(), k.DB, rulestore.Config{
		Schema: k.schema, Now: k.Now,
		Reserved: func(name string) bool {
			_, taken := k.registry.Lookup(name)
			return taken
		},
	})
	k.must(err)
	if _, err := store.Apply(k.t.Context(), file, nil); err != nil {
		k.t.Fatalf("%s: %v", path, err)
	}
	k.must(k.replay.Learn(k.t.Context()))
}

// learnRules lets runs know the rules of the database, unless the registry of the test does
// already.
func (k *Kit) learnRules(schema pgsql.Schema) {
	k.t.Helper()
	if k.registry.KnowsRules(reserved.Caller{}) {
		return
	}
	k.must(rule.Register(k.registry, rule.CheckConfig{
		DB:        func(context.Context) (pgsql.Pool, error) { return k.DB, nil },
		Publisher: k.events, Source: "/testkit", Schema: schema,
	}))
}

// Events returns the events that steps of rules have published, in the order of publishing. It leaves out those whose
// transaction was rolled back or is still open. It is empty if the test's own registry was given to rule.Register,
// whose publisher gets them.
func (k *Kit) Events() []event.Event {
	k.t.Helper()
	list, err := k.events.all(context.WithoutCancel(k.t.Context()), k.DB) // also in a function of t.Cleanup
	k.must(err)
	return list
}

// events is a publisher that keeps events. PublishTx is safe for concurrent use.
type events struct {
	mu    sync.Mutex
	open  []published
	known map[string]bool
	list  []event.Event // of transactions that have committed
}

// published holds the events of a transaction that may not have committed.
type published struct {
	transaction string // its number
	events      []event.Event
}

func newEvents() *events { return &events{known: map[string]bool{}} }

// PublishTx keeps events, with the number of their transaction.
func (e *events) PublishTx(ctx context.Context, tx jobs.Tx, batch []event.Event) error {
	for _, one := range batch {
		if err := one.Validate(); err != nil {
			return fmt.Errorf("event %s: %w", one.ID, err)
		}
	}
	number, err := numberOf(ctx, tx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open = append(e.open, published{transaction: number, events: slices.Clone(batch)})
	return nil
}

// all returns the events of the transactions that have committed. An event that was published again, by a run that was
// interrupted, is there once.
func (e *events) all(ctx context.Context, db *sqlx.DB) ([]event.Event, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	numbers := make([]string, len(e.open))
	for i, p := range e.open {
		numbers[i] = p.transaction
	}
	var states []string
	err := db.SelectContext(ctx, &states, `select pg_xact_status(number::xid8)
		from unnest($1::text[]) with ordinality as t (number, n) order by n`, pq.Array(numbers))
	if err != nil {
		return nil, fmt.Errorf("read which transactions have committed: %w", err)
	}
	var open []published
	for i, p := range e.open {
		switch states[i] {
		case "in progress":
			open = append(open, p)
		case "committed":
			for _, one := range p.events {
				if !e.known[one.ID] {
					e.known[one.ID] = true
					e.list = append(e.list, one)
				}
			}
		}
	}
	e.open = open
	return slices.Clone(e.list), nil
}
