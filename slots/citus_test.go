package slots_test

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
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

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/replay"
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
}

// Somebody has to say how a worker is killed and started: PRESCIENT_TEST_CITUS_KILL and PRESCIENT_TEST_CITUS_START are commands of a
// shell, which has the worker's WORKER_HOST and WORKER_PORT. PRESCIENT_TEST_CITUS_ROWS is how many rows are due.
func TestStoresOnCitusAreRunWhileOneMovesAndTheWorkerOfAnotherDies(t *testing.T) {
	kill, start := os.Getenv("PRESCIENT_TEST_CITUS_KILL"), os.Getenv("PRESCIENT_TEST_CITUS_START")
	if !pgtest.OnCitus() || kill == "" || start == "" {
		t.Skip("needs PRESCIENT_TEST_CITUS_URL, PRESCIENT_TEST_CITUS_KILL and PRESCIENT_TEST_CITUS_START; see docs/citus.md")
	}
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
	for i := range stores {
		stores[i] = newShard(t, db, pgsql.Schema(fmt.Sprintf("store_%d", i+1)), rows/len(stores))
	}
	t.Logf("%d rows were enqueued in %s", rows, time.Since(began).Round(time.Millisecond))

	began = time.Now()
	var wait [len(stores)]sync.WaitGroup
	for i, s := range stores {
		wait[i].Go(func() {
			s.finish()
			t.Logf("%s, on %s, ended after %s and %d runs that failed", s.schema, s.worker(), time.Since(began).Round(time.Millisecond), s.trials.Load())
		})
	}
	until := func(part int) {
		for recorded(stores[:]) < int64(rows*part/100) {
			time.Sleep(10 * time.Millisecond)
		}
		t.Logf("%d %% were recorded after %s", part, time.Since(began).Round(time.Millisecond))
	}
	until(15)
	// Those that are left alone are on the other worker: that of the one that moves.
	moving, dying := stores[0], stores[0]
	from, to := moving.worker(), ""
	for _, s := range stores[1:] {
		if s.worker() == from {
			dying = s
		} else {
			to = s.worker()
		}
	}
	if dying == moving || to == "" {
		t.Fatal("four schemas are not on two workers")
	}
	moving.move(from, to)
	t.Logf("%s moved from %s to %s by %s", moving.schema, from, to, time.Since(began).Round(time.Millisecond))
	until(30)
	shell(t, kill, from)
	t.Logf("%s was killed after %s", from, time.Since(began).Round(time.Millisecond))
	for i, s := range stores {
		if s != dying {
			wait[i].Wait()
		}
	}
	if dying.done.Load() >= int64(dying.rows) {
		t.Errorf("%s had nothing left when its worker died: more rows are needed", dying.schema)
	}
	t.Logf("the others ended without it by %s", time.Since(began).Round(time.Millisecond))
	shell(t, start, from)
	for i := range wait {
		wait[i].Wait()
	}
	t.Logf("all ended after %s", time.Since(began).Round(time.Millisecond))
	for _, s := range stores {
		s.isDoneOnce()
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
	ledger, err := slots.NewLedger(t.Context(), db, string(schema), s.clock.Now)
	if err == nil {
		err = ledger.Begin(t.Context(), slot(1))
	}
	if err != nil {
		t.Fatal(err)
	}
	client, err := jobs.NewClient(t.Context(), db, jobs.Config{Schema: string(schema), Now: s.clock.Now})
	if err == nil {
		_, err = client.EnqueueAll(t.Context(), db, s.all(), jobs.Keep)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.clock.Set(slot(1))
	return s
}

func (s *shard) all() iter.Seq[jobs.FutureJob] {
	return func(yield func(jobs.FutureJob) bool) {
		for i := range s.rows {
			j := jobs.FutureJob{JobExec: "order.unpaid", EntityName: "order", EntityKey: strconv.Itoa(i)}
			j.SetCheckAt(grid.Default, slot(1))
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
	registry.RegisterBatchTx("order.unpaid", func(ctx context.Context, tx *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		keys := make([]string, len(batch))
		for i, job := range batch {
			keys[i] = job.EntityKey
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf(`insert into %s.effect (entity_key) select unnest($1::text[])`, s.schema), pq.Array(keys))
		return make([]jobs.Result, len(batch)), err
	}, jobs.Retry(1000)) // what a dead worker fails is no fault of the row
	var before int64
	r, err := slots.NewRunner(s.t.Context(), slots.Config{
		DB: s.db, Schema: string(s.schema), Registry: registry, Now: s.clock.Now, Connections: 2, Lease: 5 * time.Second, Grace: time.Second,
		Logger:   slog.New(slog.DiscardHandler),
		Progress: func(p slots.Progress) { s.done.Add(p.Recorded - before); before = p.Recorded },
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
		s.t.Fatal(err)
	}
	if got := s.worker(); got != to {
		s.t.Fatalf("%s is on %s", s.schema, got)
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

func recorded(stores []*shard) (n int64) {
	for _, s := range stores {
		n += s.done.Load()
	}
	return n
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
