package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
)

// entity is the name of the entities of the mutator's checks.
const entity = "torture"

// known says whether a transaction of the mutator has committed.
type known string

const (
	done    known = "done"    // its commit was acknowledged
	none    known = "none"    // it was rolled back, or failed before its commit
	unknown known = "unknown" // the reply to its commit was lost
)

// story lists the calls for one key. One goroutine writes it.
type story struct {
	job, key string
	asks     []ask
}

// ask is one call for a key.
type ask struct {
	what   string // enqueue, replace, push_back, cancel, reschedule
	at     time.Time
	began  time.Time
	ended  time.Time
	known  known
	action string // of the function, if it answered
}

// mutator changes rows as applications do, each in a transaction.
type mutator struct {
	direct, proxied *sqlx.DB
	random          *rand.Rand
	ruled           bool // it writes to the table with the rule

	mu      sync.Mutex
	stories []*story
	orders  []*order

	later sync.WaitGroup // changes of orders to come
}

// order is a row of the table with the rule.
type order struct {
	id     int64
	starts []change // of its clock, the insert first
	over   *change  // it was paid or deleted; nil: never
}

// change is a change of an order.
type change struct {
	at    time.Time // the start of the clock
	known known
	ended time.Time // when the call returned
}

// work does one thing after another until ctx ends.
func (m *mutator) work(ctx context.Context, worker int, pace time.Duration) {
	m.mu.Lock()
	random := rand.New(rand.NewPCG(m.random.Uint64(), uint64(worker)))
	m.mu.Unlock()
	var mine []*story
	for n := 0; ctx.Err() == nil; n++ {
		switch luck := random.IntN(100); {
		case luck < 45 || len(mine) == 0:
			s := &story{
				job: pick(random, plainJob, plainJob, txJob, txJob, txJob, limitedJob, pacedJob, onlyA, onlyB),
				key: fmt.Sprintf("%d-%d", worker, n),
			}
			mine = append(mine, s)
			m.mu.Lock()
			m.stories = append(m.stories, s)
			m.mu.Unlock()
			m.ask(ctx, random, s, "enqueue")
		case luck < 60:
			m.ask(ctx, random, mine[max(0, len(mine)-1-random.IntN(30))], pick(random, "replace", "push_back", "enqueue"))
		case luck < 70:
			m.ask(ctx, random, mine[max(0, len(mine)-1-random.IntN(30))], "cancel")
		case luck < 75:
			m.ask(ctx, random, mine[max(0, len(mine)-1-random.IntN(30))], "reschedule")
		case luck < 90 && !m.ruled:
		case luck < 90:
			m.order(ctx, random, int64(worker)*10_000_000+int64(n))
		default:
			m.bulk(ctx, random, worker, n, &mine)
		}
		if len(mine) > 60 {
			mine = mine[len(mine)-60:]
		}
		wait(ctx, time.Duration(random.Int64N(int64(2*pace))))
	}
}

func pick[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }

// ask calls a function for a key.
func (m *mutator) ask(ctx context.Context, random *rand.Rand, s *story, what string) {
	a := ask{what: what, began: time.Now()}
	a.at = a.began.Add(time.Duration(random.IntN(9000)) * time.Millisecond)
	a.known = m.commit(ctx, random, func(tx *sqlx.Tx) error {
		switch what {
		case "cancel":
			var was bool
			err := tx.GetContext(ctx, &was, "select prescient.cancel($1, 'torture', $2)", s.job, s.key)
			a.action = fmt.Sprint(was)
			return err
		case "reschedule":
			var slot sql.NullTime
			err := tx.GetContext(ctx, &slot, "select prescient.reschedule($1, 'torture', $2, check_at => $3)", s.job, s.key, a.at)
			a.action = fmt.Sprint(slot.Valid)
			return err
		}
		policy := map[string]string{"enqueue": "keep", "replace": "replace", "push_back": "push_back"}[what]
		return tx.GetContext(ctx, &a.action,
			"select action from prescient.enqueue($1, 'torture', $2, check_at => $3, on_conflict => $4)", s.job, s.key, a.at, policy)
	})
	a.ended = time.Now()
	m.mu.Lock()
	s.asks = append(s.asks, a)
	m.mu.Unlock()
}

// bulk enqueues many keys in one call.
func (m *mutator) bulk(ctx context.Context, random *rand.Rand, worker, n int, mine *[]*story) {
	const size = 20
	job := pick(random, plainJob, txJob)
	a := ask{what: "enqueue", began: time.Now(), action: "inserted"}
	a.at = a.began.Add(time.Duration(random.IntN(6000)) * time.Millisecond)
	var many []*story
	keys := make([]string, size)
	for i := range size {
		keys[i] = fmt.Sprintf("%d-%d-%d", worker, n, i)
		many = append(many, &story{job: job, key: keys[i]})
	}
	a.known = m.commit(ctx, random, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `
			select prescient.enqueue_many(
				array_agg($1::text), array_agg('torture'::text), array_agg(k), array_agg(''::text),
				array_agg($2::timestamptz))
			from unnest(string_to_array($3, ',')) as k`, job, a.at, strings.Join(keys, ","))
		return err
	})
	a.ended = time.Now()
	for _, s := range many {
		s.asks = []ask{a}
	}
	m.mu.Lock()
	m.stories = append(m.stories, many...)
	m.mu.Unlock()
	*mine = append(*mine, many[:3]...)
}

// order inserts a row of the table with the rule. Later, its clock may start again, and it may be paid or deleted.
func (m *mutator) order(ctx context.Context, random *rand.Rand, id int64) {
	o := &order{id: id}
	m.mu.Lock()
	m.orders = append(m.orders, o)
	m.mu.Unlock()
	at := time.Now().Truncate(time.Microsecond)
	insert := m.change(ctx, random, at, "insert into torture.orders (placed_at, id) values ($1, $2)", id)
	o.starts = []change{insert}
	if insert.known == none {
		return
	}
	random = rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
	m.later.Go(func() {
		if insert.known == done && random.IntN(3) == 0 {
			wait(ctx, time.Duration(random.IntN(7000))*time.Millisecond)
			at := time.Now().Truncate(time.Microsecond)
			o.starts = append(o.starts, m.change(ctx, random, at, "update torture.orders set placed_at = $1 where id = $2", id))
		}
		if random.IntN(3) == 0 {
			return
		}
		wait(ctx, time.Duration(random.IntN(6000))*time.Millisecond)
		statement := pick(random, "update torture.orders set paid_at = $1 where id = $2",
			"delete from torture.orders where placed_at <= $1 and id = $2")
		over := m.change(ctx, random, time.Now().Truncate(time.Microsecond), statement, id)
		o.over = &over
	})
}

// change executes a statement about an order.
func (m *mutator) change(ctx context.Context, random *rand.Rand, at time.Time, statement string, id int64) change {
	known := m.commit(ctx, random, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, statement, at, id)
		return err
	})
	return change{at, known, time.Now()}
}

// commit runs fn in a transaction, and says what became of it. A tenth of the transactions is rolled back, and a
// twentieth stays open over a boundary.
func (m *mutator) commit(ctx context.Context, random *rand.Rand, fn func(tx *sqlx.Tx) error) known {
	db := m.direct
	if random.IntN(3) == 0 {
		db = m.proxied
	}
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return none
	}
	if err := fn(tx); err != nil {
		_ = tx.Rollback()
		return none
	}
	luck := random.IntN(100)
	if luck < 10 {
		_ = tx.Rollback()
		return none
	}
	if luck < 15 {
		time.Sleep(time.Duration(500+random.IntN(3000)) * time.Millisecond)
	}
	if err := tx.Commit(); err != nil {
		if errors.Is(err, sql.ErrTxDone) {
			return none // the context had ended before, and the transaction was rolled back
		}
		return unknown
	}
	return done
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
