package slots_test

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/replay"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// shard is a store of a cluster: a schema, and the worker that has it.
type shard struct {
	t      testing.TB
	db     *sqlx.DB
	schema pgsql.Schema
	clock  *replay.Clock
	rows   int
	done   atomic.Int64 // rows that were recorded, of runs that failed, too
	trials atomic.Int64 // runs that failed
	holds  []*hold
	middle *hold // of the transaction of a check; nil without one
	ended  sync.WaitGroup
}

// hold is where a store stays until something has happened to another one, or to itself.
type hold struct {
	after         int64 // rows that were recorded
	reached, open chan struct{}
	reach         sync.Once
}

func newHold(after int) *hold {
	return &hold{after: int64(after), reached: make(chan struct{}), open: make(chan struct{})}
}

func (h *hold) stay(ctx context.Context) {
	h.reach.Do(func() { close(h.reached) })
	select {
	case <-h.open:
	case <-ctx.Done():
	}
}

// Somebody has to say how a worker is killed and started: PRESCIENT_TEST_CITUS_KILL and PRESCIENT_TEST_CITUS_START are commands of a
// shell, which has the worker's WORKER_HOST and WORKER_PORT. PRESCIENT_TEST_CITUS_ROWS is how many rows are due.
//
// What happens waits for the stores, and they wait for it, so that the order is the same on a fast machine and on a slow one: each
// stays between two transactions at some share of its rows, but for the one that dies, which does so in their middle.
func TestStoresOnCitusAreRunWhileOneMovesAndTheWorkerOfAnotherDies(t *testing.T) {
	kill, start := killers(t)
	rows, err := strconv.Atoi(cmp.Or(os.Getenv("PRESCIENT_TEST_CITUS_ROWS"), "20000"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := pgsql.Open(t.Context(), pgtest.Empty(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	var stores [4]*shard
	began := time.Now()
	tell := func(format string, args ...any) {
		t.Logf("%7s  %s", time.Since(began).Round(100*time.Millisecond), fmt.Sprintf(format, args...))
	}
	for i := range stores {
		stores[i] = newShard(t, db, pgsql.Schema(fmt.Sprintf("store_%d", i+1)), rows/len(stores))
	}
	tell("%d rows were enqueued", rows)

	// Those that are left alone are on the other worker: that of the one that moves.
	moving, dying := stores[0], stores[0]
	from, to := moving.worker(), ""
	var others []*shard
	for _, s := range stores[1:] {
		if s.worker() == from {
			dying = s
		} else {
			to = s.worker()
			others = append(others, s)
		}
	}
	if dying == moving || to == "" {
		t.Fatal("four schemas are not on two workers")
	}
	part := moving.rows / 4
	untilMoving, untilMoved, untilKilled := newHold(part), newHold(2*part), newHold(3*part)
	moving.holds = []*hold{untilMoving, untilMoved, untilKilled}
	untilOver, middle := newHold(part), newHold(2*part) // no move begins or ends while a transaction is open
	dying.holds, dying.middle = []*hold{untilOver}, middle
	for _, s := range others {
		s.holds = []*hold{untilKilled}
	}

	began = time.Now()
	for _, s := range stores {
		s.ended.Go(s.finish)
	}
	t.Cleanup(func() { // after any failure
		for _, s := range stores {
			s.ended.Wait()
		}
	})
	happens(t, untilMoving.reached)
	tell("%s has recorded %d of its %d rows, and is asked to move from %s to %s", moving.schema, moving.done.Load(), moving.rows, from, to)
	moved := make(chan struct{})
	moving.ended.Go(func() { defer close(moved); moving.move(from, to) })
	moving.awaitMove(moved)
	before := moving.done.Load()
	tell("it moves: what is recorded from now on is sent on to %s", to)
	close(untilMoving.open)
	happens(t, moved)
	during := moving.done.Load() - before
	tell("it has moved, with %d rows recorded meanwhile", during)
	if during == 0 {
		t.Errorf("%s has recorded nothing while it moved", moving.schema)
	}
	close(untilMoved.open)
	close(untilOver.open)
	happens(t, middle.reached)
	shell(t, kill, from)
	tell("%s was killed in the middle of checks of %s, which had recorded %d rows", from, dying.schema, dying.done.Load())
	close(middle.open)
	close(untilKilled.open)
	for _, s := range append(others, moving) {
		s.ended.Wait()
		tell("%s, on %s, has ended, with %d runs that failed", s.schema, s.worker(), s.trials.Load())
	}
	if left := int64(dying.rows) - dying.done.Load(); left == 0 {
		t.Errorf("%s had nothing left when its worker died", dying.schema)
	}
	shell(t, start, from)
	tell("%s was started again", from)
	dying.ended.Wait()
	tell("%s, on %s, has ended, with %d runs that failed", dying.schema, dying.worker(), dying.trials.Load())
	for _, s := range stores {
		s.isDoneOnce()
	}
}

// killers are the commands that kill a worker, and start it.
func killers(t *testing.T) (kill, start string) {
	t.Helper()
	kill, start = os.Getenv("PRESCIENT_TEST_CITUS_KILL"), os.Getenv("PRESCIENT_TEST_CITUS_START")
	if !pgtest.OnCitus() || kill == "" || start == "" {
		t.Skip("needs PRESCIENT_TEST_CITUS_URL, PRESCIENT_TEST_CITUS_KILL and PRESCIENT_TEST_CITUS_START; see docs/citus.md")
	}
	return kill, start
}

// The worker of a store dies at some moment, again and again. Each operation is repeated until it succeeds.
func TestAWorkerThatDiesLeavesNoWidthHalfChangedAndNoSlotHalfOpened(t *testing.T) {
	kill, start := killers(t)
	db, err := pgsql.Open(t.Context(), pgtest.Empty(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s := newShard(t, db, "store_1", 20_000)
	s.clock.Set(noon)
	worker := s.worker()
	die := func() { shell(t, kill, worker); shell(t, start, worker) }
	width := func(minutes int) error {
		l, err := ledger.New(t.Context(), db, string(s.schema), s.clock.Now)
		if err != nil {
			return err
		}
		g, err := grid.New(time.Duration(minutes) * time.Minute)
		if err == nil {
			_, err = l.SetWidth(t.Context(), g)
		}
		return err
	}
	changed := 0
	failed := untilDeathsAreOver(die, func(tried int) error {
		err := width([]int{3, 5}[tried%2])
		if err == nil {
			changed++
		}
		return err
	})
	t.Logf("%d deaths, %d changes of the width, %d of them in vain", deaths, changed+failed, failed)
	until := time.Now().Add(2 * time.Minute) // Citus finds out in a minute what became of a transaction that was prepared
	for err = width(15); err != nil; err = width(15) {
		if time.Now().After(until) {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
	var waiting, astray int
	const query = `
		select count(*), count(*) filter (where f.next_check_at <> prescient.slot_ceil(f.next_check_at, interval '15 minutes'))
		from prescient.future_job f`
	if err := db.QueryRow(pg.NewStatement(query).In(s.schema)).Scan(&waiting, &astray); err != nil || waiting != s.rows || astray > 0 {
		t.Errorf("%d rows wait, %d of them in no slot: %v; want %d", waiting, astray, err, s.rows)
	}
	s.clock.Set(slot(1))
	failed = untilDeathsAreOver(die, func(int) error {
		_, err := s.run()
		return err
	})
	t.Logf("%d deaths, %d runs that failed", deaths, failed)
	s.finish()
	s.isDoneOnce()
}

// deaths is how often a worker dies.
const deaths = 5

// untilDeathsAreOver does something again and again, and returns how often that has failed.
func untilDeathsAreOver(die func(), what func(tried int) error) (failed int) {
	over := make(chan struct{})
	var working sync.WaitGroup
	working.Go(func() {
		for tried := 0; ; tried++ {
			if what(tried) != nil {
				failed++
				time.Sleep(10 * time.Millisecond)
			}
			select {
			case <-over:
				return
			default:
			}
		}
	})
	end := sync.OnceFunc(func() { close(over); working.Wait() })
	defer end() // if die ends the test, too
	for range deaths {
		time.Sleep(rand.N(1500 * time.Millisecond))
		die()
	}
	end()
	return failed
}

// happens waits for what happens to a store.
func happens(t *testing.T, what <-chan struct{}) {
	t.Helper()
	select {
	case <-what:
	case <-time.After(20 * time.Minute):
		t.Fatal("it takes too long")
	}
}

// newShard makes a store, in which rows are due in a slot.
func newShard(t *testing.T, db *sqlx.DB, schema pgsql.Schema, rows int) *shard {
	t.Helper()
	s := &shard{t: t, db: db, schema: schema, clock: replay.NewClock(noon), rows: rows}
	if err := pgsql.Migrate(t.Context(), db, schema); err != nil {
		t.Fatal(err)
	}
	db.MustExec(fmt.Sprintf(`create table %s.effect (entity_key text not null)`, schema))
	l, err := ledger.New(t.Context(), db, string(schema), s.clock.Now)
	if err == nil {
		err = l.Begin(t.Context(), slot(1))
	}
	if err != nil {
		t.Fatal(err)
	}
	client, err := jobs.NewClient(t.Context(), db, jobs.Config{Schema: string(schema), Now: s.clock.Now})
	if err == nil {
		_, err = client.EnqueueAll(t.Context(), jobs.OwnTx(db), s.all())
	}
	if err != nil {
		t.Fatal(err)
	}
	s.clock.Set(slot(1))
	return s
}

func (s *shard) all() iter.Seq[jobs.Request] {
	return func(yield func(jobs.Request) bool) {
		for i := range s.rows {
			j := jobs.Request{JobExec: "order.unpaid", EntityName: "order", EntityKey: strconv.Itoa(i)}
			j.CheckAt = slot(1)
			if !yield(j) {
				return
			}
		}
	}
}

// finish runs the slot as processes of cron do, each after the one before has failed, until one has closed it.
func (s *shard) finish() {
	for {
		result, err := s.run()
		if err == nil && result.State == slots.StateDone {
			return
		}
		if s.trials.Add(1); s.t.Context().Err() != nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (s *shard) run() (slots.Result, error) {
	registry := jobs.NewRegistry()
	registry.Register("order.unpaid", jobs.BatchInTx(func(ctx context.Context, tx *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		keys := make([]string, len(batch))
		for i, job := range batch {
			keys[i] = job.EntityKey
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf(`insert into %s.effect (entity_key) select unnest($1::text[])`, s.schema), pq.Array(keys))
		if s.middle != nil && s.done.Load() >= s.middle.after {
			s.middle.stay(ctx)
		}
		return make([]jobs.Result, len(batch)), err
	}), jobs.Retry(1000)) // what a dead worker fails is no fault of the row
	var before int64
	r, err := slots.NewRunner(s.t.Context(), slots.Config{
		DB: s.db, Schema: string(s.schema), Registry: registry, Now: s.clock.Now, Connections: 2, Lease: 5 * time.Second, Grace: time.Second,
		Page: min(1000, s.rows/20), Logger: slog.New(slog.DiscardHandler),
		Progress: func(p slots.Progress) { // a transaction has ended, and those of other checks end before they are counted
			done := s.done.Add(p.Recorded - before)
			before = p.Recorded
			for _, h := range s.holds {
				if done >= h.after {
					h.stay(s.t.Context())
				}
			}
		},
	})
	if err != nil {
		return slots.Result{}, err
	}
	return r.Run(s.t.Context(), slot(1))
}

// worker is the address of the server that has the schema.
func (s *shard) worker() (address string) {
	s.t.Helper()
	const query = `select nodename || ':' || nodeport from citus_shards where table_name = ($1 || '.future_job')::regclass`
	if err := s.db.Get(&address, query, s.schema); err != nil {
		s.t.Error(err)
	}
	return address
}

// move has Citus bring the schema to another worker, with writes going on but at the end.
func (s *shard) move(from, to string) {
	s.t.Helper()
	const query = `
		select citus_move_shard_placement(shardid, $1, $2, $3, $4, 'force_logical')
		from citus_shards where table_name = ($5 || '.future_job')::regclass`
	fromHost, fromPort, _ := net.SplitHostPort(from)
	toHost, toPort, _ := net.SplitHostPort(to)
	if _, err := s.db.Exec(query, fromHost, fromPort, toHost, toPort, s.schema); err != nil {
		s.t.Error(err)
	}
	if got := s.worker(); got != to {
		s.t.Errorf("%s is on %s", s.schema, got)
	}
}

// awaitMove waits until Citus has begun to keep for the new worker what is written to the schema.
func (s *shard) awaitMove(moved <-chan struct{}) {
	s.t.Helper()
	const query = `
		select coalesce(sum(result::int), 0) > 0
		from run_command_on_workers('select count(*) from pg_replication_slots where starts_with(slot_name, ''citus_shard_move_slot'')')`
	for begun := false; !begun; time.Sleep(10 * time.Millisecond) {
		select {
		case <-moved:
			s.t.Fatalf("%s has moved before anybody has seen it move", s.schema)
		default:
		}
		if err := s.db.Get(&begun, query); err != nil {
			s.t.Fatal(err)
		}
	}
}

// isDoneOnce compares what was enqueued with what the checks have written, and with history.
func (s *shard) isDoneOnce() {
	s.t.Helper()
	for query, want := range map[string]int{
		`select count(*) from %s.effect`:                                                s.rows,
		`select count(distinct entity_key) from %s.effect`:                              s.rows,
		`select count(*) from %s.effect where entity_key::int >= ` + fmt.Sprint(s.rows): 0,
		`select count(*) from %s.future_job_history where outcome = 'done'`:             s.rows,
		`select count(distinct entity_key) from %s.future_job_history`:                  s.rows,
		`select count(*) from %s.future_job_history`:                                    s.rows,
		`select count(*) from %s.future_job`:                                            0,
		`select coalesce(sum(finished), 0) from %s.slot_run where state = 'done'`:       s.rows,
	} {
		var got int
		if err := s.db.Get(&got, fmt.Sprintf(query, s.schema)); err != nil || got != want {
			s.t.Errorf("%s: %d, %v; want %d", strings.ReplaceAll(query, "%s", string(s.schema)), got, err, want)
		}
	}
}

func shell(t *testing.T, command, worker string) {
	t.Helper()
	host, port, err := net.SplitHostPort(worker)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Env = append(os.Environ(), "WORKER_HOST="+host, "WORKER_PORT="+port)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}
