package slots_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/embedded"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// pair is a primary and its synchronous standby.
type pair struct {
	t                testing.TB
	primary, standby *embedded.Server
}

// newPair starts a primary with the data of a server that is stopped, and its standby.
func newPair(t *testing.T, seed *embedded.Server) *pair {
	t.Helper()
	p := &pair{t: t, primary: pgtest.Private(t, nil), standby: pgtest.Private(t, nil)}
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", filepath.Join(seed.Dir(), "data"), p.primary.Dir()).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := p.primary.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := pgtest.Follow(t.Context(), p.standby, p.primary); errors.Is(err, pgtest.ErrNoBackup) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	return p
}

func query(t testing.TB, s *embedded.Server) url.Values {
	t.Helper()
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	return u.Query()
}

// url is that of whichever of the two can be written to.
func (p *pair) url() string {
	p.t.Helper()
	both := query(p.t, p.primary)
	both.Set("host", both.Get("host")+","+query(p.t, p.standby).Get("host"))
	both.Set("port", "5432,5432")
	both.Set("target_session_attrs", "read-write")
	return strings.Split(p.primary.URL(), "?")[0] + "?" + both.Encode()
}

// failoverTrials is how many failovers a test goes through; make test-failover has a hundred.
func failoverTrials(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("PRESCIENT_TEST_FAILOVERS"))
	if err != nil {
		return 3
	}
	return n
}

func TestAFailoverLosesNothingAndDoesNothingTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("it copies and promotes servers")
	}
	t.Parallel()
	seed := pgtest.Private(t, nil)
	if err := seed.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	db := open(t, seed.URL())
	if err := pgsql.Migrate(t.Context(), db, ""); err != nil {
		t.Fatal(err)
	}
	db.MustExec(`create table effect (key text); create table placed (key text)`)
	if err := errors.Join(db.Close(), seed.Stop(t.Context())); err != nil {
		t.Fatal(err)
	}
	for n := range failoverTrials(t) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			newFailoverTrial(t, seed, n).run()
		})
	}
}

// failoverTrial is a runner and an application while a failover happens.
type failoverTrial struct {
	*world
	pair   *pair
	strike int64         // the call of a check at which the primary is killed
	pause  time.Duration // before the standby is promoted
	calls  atomic.Int64
	over   chan struct{} // closed when the standby is promoted
	acked  []string      // what the application knows to be committed
	runs   int           // that the slots took
}

const (
	failoverRows  = 200
	failoverLease = 2 * time.Second
)

var failoverJobs = []string{"plain", "tx", "batchtx"}

func newFailoverTrial(t *testing.T, seed *embedded.Server, n int) *failoverTrial {
	t.Helper()
	p := newPair(t, seed)
	f := &failoverTrial{
		world: setupAt(t, p.url()), pair: p, over: make(chan struct{}),
		// A run outlives the second, and the third is for the next to resume.
		pause:  []time.Duration{0, failoverLease / 4, failoverLease * 3 / 2}[n%3],
		strike: 1 + rand.New(rand.NewPCG(1, uint64(n))).Int64N(int64(failoverRows*len(failoverJobs))),
	}
	f.registry.Register("plain", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, f.called() }))
	f.registry.Register("tx", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		return nil, f.affect(ctx, tx, job)
	}))
	f.registry.Register("batchtx", jobs.BatchInTx(func(ctx context.Context, tx *sqlx.Tx, rows []jobs.FutureJob) ([]jobs.Result, error) {
		return make([]jobs.Result, len(rows)), f.affect(ctx, tx, rows...)
	}))
	for _, job := range failoverJobs {
		f.enqueue(job, slot(1), failoverRows)
	}
	return f
}

func (f *failoverTrial) affect(ctx context.Context, tx *sqlx.Tx, rows ...jobs.FutureJob) error {
	for _, row := range rows {
		if err := f.called(); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `insert into effect values ($1)`, row.Key().String()); err != nil {
			return err
		}
	}
	return nil
}

// called lets it happen, beside the other work.
func (f *failoverTrial) called() error {
	if f.calls.Add(1) == f.strike {
		go func() {
			defer close(f.over)
			ctx := context.WithoutCancel(f.t.Context())
			err := pgtest.PowerOff(ctx, f.pair.primary)
			time.Sleep(f.pause)
			if err := errors.Join(err, pgtest.Promote(ctx, f.pair.standby)); err != nil {
				f.t.Error(err)
			}
		}()
	}
	return nil
}

func (f *failoverTrial) run() {
	placing := make(chan struct{})
	go func() {
		defer close(placing)
		f.place()
	}()
	f.untilDone(slot(1))
	<-f.over
	<-placing
	f.untilDone(slot(2))
	f.judge()
}

// untilDone runs a slot, again and again as cron or catch-up would, until it is done.
func (f *failoverTrial) untilDone(at time.Time) {
	f.clock.Set(at)
	var err error
	for deadline := time.Now().Add(await.Limit); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		f.runs++
		var r *slots.Runner
		var result slots.Result
		cfg := slots.Config{DB: f.db, Registry: f.registry, Now: f.clock.Now, Page: 20, Lease: failoverLease}
		if r, err = slots.NewRunner(f.t.Context(), cfg); err != nil {
			continue
		}
		if result, err = r.Run(f.t.Context(), at); err == nil && result.State == slots.StateDone {
			return
		}
	}
	f.t.Errorf("slot %s is not done: %v", at, err)
}

// place is the application: it places orders, each with a check, until some were placed after the failover.
func (f *failoverTrial) place() {
	after := 0
	for n := 0; after < 20; n++ {
		key := fmt.Sprintf("placed %d", n)
		job := jobs.Request{JobExec: "tx", EntityName: "placed", EntityKey: key}
		job.CheckAt = slot(2)
		err := pgsql.InTx(f.t.Context(), f.db, func(tx *sqlx.Tx) error {
			_, err := tx.ExecContext(f.t.Context(), `insert into placed values ($1)`, key)
			if err == nil {
				_, err = f.client.Enqueue(f.t.Context(), tx, job)
			}
			return err
		})
		if err != nil { // it does not know, and cannot ask
			time.Sleep(time.Millisecond)
			continue
		}
		f.acked = append(f.acked, key)
		select {
		case <-f.over:
			after++
		default:
		}
	}
}

func (f *failoverTrial) judge() {
	f.t.Logf("at call %d, for %s: %d placed and answered, %d runs of 2 slots", f.strike, f.pause, len(f.acked), f.runs)
	for _, key := range f.acked {
		if f.count(`select count(*) from placed where key = '`+key+`'`) != 1 {
			f.t.Errorf("%s is lost", key)
		}
	}
	for want, queries := range map[int][]string{
		0: {
			`select count(*) from prescient.future_job`, `select count(*) from prescient.slot_claim`,
			`select count(*) from prescient.future_job_history where outcome <> 'done' or error_count > 0`,
			`select count(*) from (select from effect group by key having count(*) > 1) as twice`,
			`select count(*) from (select key from placed except select entity_key from prescient.future_job_history) as lost`,
			`select count(*) from (select entity_key from prescient.future_job_history where entity_name = 'placed' except select key from placed) as phantom`,
			`select count(*) from effect full join prescient.future_job_history h on key = job_exec || ' on ' || entity_name || ' ' || entity_key
				where job_exec is null or key is null and job_exec <> 'plain'`,
		},
		failoverRows * len(failoverJobs): {`select count(*) from prescient.future_job_history where entity_name = 'order'`},
	} {
		for _, query := range queries {
			if n := f.count(query); n != want {
				f.t.Errorf("%d, want %d: %s", n, want, query)
			}
		}
	}
	if status, err := f.ledger.Status(f.t.Context(), time.Time{}); err != nil || !status.OK() {
		f.t.Errorf("slots are in trouble: %v, %v", status.Trouble, err)
	}
}
