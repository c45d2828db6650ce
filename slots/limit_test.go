package slots_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/internal/claim"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// Where the rows of a page are of several keys, each call has those of one, neighbours or not.
func TestABatchHasTheRowsOfOneKeyAlone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const rows = 200
	tenant := func(job jobs.FutureJob) string {
		n, _ := strconv.Atoi(job.EntityKey)
		return []string{"a", "a", "b", "a", "c", "b", "b", "a"}[n%8]
	}
	var mu sync.Mutex
	calls := map[string]int{}
	w.registry.Register("job", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		results := make([]jobs.Result, len(batch))
		for i, job := range batch {
			if tenant(job) != tenant(batch[0]) {
				t.Errorf("a row of %s is among those of %s", tenant(job), tenant(batch[0]))
			}
			if tenant(job) == "b" {
				results[i].Next = new(slot(2))
			}
			mu.Lock()
			calls[job.EntityKey]++
			mu.Unlock()
		}
		return results, nil
	}), jobs.AtMost(10), jobs.LimitBy(tenant))
	w.enqueue("job", slot(1), rows)
	if result := w.run(slot(1)); result.Finished != rows*5/8 || result.Rescheduled != rows*3/8 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
	for key, n := range calls {
		if n != 1 {
			t.Errorf("order %s was checked %d times", key, n)
		}
	}
	if len(calls) != rows {
		t.Errorf("%d of %d rows were checked", len(calls), rows)
	}
	for _, job := range w.waiting() {
		if tenant(job) != "b" {
			t.Errorf("order %s of %s waits", job.EntityKey, tenant(job))
		}
	}
}

// gauge counts what goes on at once, and when it began, by key.
type gauge struct {
	mu    sync.Mutex
	now   map[string]int
	most  map[string]int
	began map[string][]time.Time
}

func newGauge() *gauge {
	return &gauge{now: map[string]int{}, most: map[string]int{}, began: map[string][]time.Time{}}
}

func (g *gauge) enter(key string) (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now[key]++
	g.most[key] = max(g.most[key], g.now[key])
	g.began[key] = append(g.began[key], time.Now())
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.now[key]--
	}
}

// within is the most that began within any second.
func (g *gauge) within(key string) (most int) {
	began := slices.SortedFunc(slices.Values(g.began[key]), time.Time.Compare)
	first := 0
	for i, at := range began {
		for at.Sub(began[first]) >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// tenant is the entity_key up to a dash.
func tenant(job jobs.FutureJob) string {
	name, _, _ := strings.Cut(job.EntityKey, "-")
	return name
}

// enqueueTenants asks for n checks of each tenant.
func (w *world) enqueueTenants(job string, n int, tenants ...string) {
	w.t.Helper()
	var list []jobs.Request
	for i := range n {
		for _, tenant := range tenants {
			j := jobs.Request{JobExec: job, EntityName: "invoice", EntityKey: fmt.Sprint(tenant, "-", i)}
			j.CheckAt = slot(1)
			list = append(list, j)
		}
	}
	if _, err := w.client.EnqueueMany(w.t.Context(), jobs.OwnTx(w.db), list); err != nil {
		w.t.Fatal(err)
	}
}

// runAll runs slot 1 by several runners at once.
func (w *world) runAll(runners int, change ...func(*slots.Config)) (total slots.Result) {
	w.t.Helper()
	w.clock.Set(slot(1))
	var running []<-chan slots.Result
	for n := range runners {
		named := func(cfg *slots.Config) { cfg.Name = fmt.Sprint("runner ", n) }
		running = append(running, w.background(slot(1), append(change, named)...))
	}
	for _, r := range running {
		result := <-r
		total.Finished += result.Finished
		total.Failed += result.Failed
		total.Lost += result.Lost
	}
	return total
}

func TestAllRunnersTogetherDoNoMoreAtOnceThanALimitAllows(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]func(jobs.FutureJob) string{"of the job": nil, "of each tenant": tenant} {
		for shape, register := range map[string]func(r *jobs.Registry, enter func(string) func(), opts ...jobs.Option){
			"checks": func(r *jobs.Registry, enter func(string) func(), opts ...jobs.Option) {
				r.Register("limited", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
					defer enter(tenant(job))()
					time.Sleep(time.Millisecond)
					return nil, nil
				}), opts...)
			},
			"batches with a transaction": func(r *jobs.Registry, enter func(string) func(), opts ...jobs.Option) {
				r.Register("limited", jobs.BatchInTx(func(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
					defer enter(tenant(batch[0]))()
					time.Sleep(time.Millisecond)
					return make([]jobs.Result, len(batch)), nil
				}), opts...)
			},
		} {
			t.Run(name+" "+shape, func(t *testing.T) {
				t.Parallel()
				w := setup(t)
				g := newGauge()
				opts := []jobs.Option{jobs.AtMost(3)}
				enter := func(string) func() { return g.enter("all") }
				if by != nil {
					opts, enter = append(opts, jobs.LimitBy(by)), g.enter
				}
				register(w.registry, enter, opts...)
				var others atomic.Int64
				w.registry.Register("unlimited", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { others.Add(1); return nil, nil }))
				w.enqueueTenants("limited", 200, "a", "b")
				w.enqueueTenants("unlimited", 100, "c")
				total := w.runAll(4, func(cfg *slots.Config) { cfg.Page, cfg.Workers = 40, 8 })
				if total.Finished != 500 || others.Load() != 100 {
					t.Errorf("%+v", total)
				}
				for key, most := range g.most {
					if most > 3 {
						t.Errorf("%s: %d at once", key, most)
					}
				}
				if left := w.count(`select count(*) from prescient.job_permit`); left != 0 {
					t.Errorf("%d permits were not given back", left)
				}
			})
		}
	}
}

func TestAllRunnersTogetherBeginNoMoreInASecondThanALimitAllows(t *testing.T) {
	t.Parallel()
	w := setup(t)
	g := newGauge()
	w.registry.Register("limited", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		defer g.enter(tenant(job))()
		return nil, nil
	}), jobs.PerSecond(200), jobs.LimitBy(tenant))
	w.enqueueTenants("limited", 500, "a", "b")
	total := w.runAll(4, func(cfg *slots.Config) { cfg.Page, cfg.Workers = 100, 8 })
	if total.Finished != 1000 {
		t.Errorf("%+v", total)
	}
	for _, key := range []string{"a", "b"} {
		// On a machine where a process stands still for 50 ms, what it had begun counts with what others begin after it.
		if most := g.within(key); most > 210 {
			t.Errorf("%s: %d began within a second", key, most)
		}
	}
}

// A run has not taken the instants of all its workers for itself: others would wait for them in vain.
func TestARunThatIsStoppedLeavesThePaceToOthers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	began := make(chan struct{}, 50)
	w.registry.Register("limited", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		began <- struct{}{}
		return nil, nil
	}), jobs.PerSecond(1))
	w.enqueueTenants("limited", 50, "a")
	w.clock.Set(slot(1))
	for range 2 {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		runner := w.runner()
		go func() {
			_, err := runner.Run(ctx, slot(1))
			ended <- err
		}()
		select {
		case <-began:
		case <-time.After(await.Limit):
			t.Error("no check has begun")
		}
		stop()
		if err := <-ended; !errors.Is(err, slots.ErrStopped) {
			t.Error(err)
		}
	}
}

func TestAPaceDoesNotWaitForAClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ahead := func() (minutes float64) {
		t.Helper()
		if err := w.db.GetContext(t.Context(), &minutes, `select extract(epoch from prescient.reserve_rate(7, '', 1, interval '1 second')) / 60`); err != nil {
			t.Fatal(err)
		}
		return minutes
	}
	ahead()
	for free, want := range map[string]float64{"3 hours": 10, "5 minutes": 5} {
		if _, err := w.db.ExecContext(t.Context(), `update prescient.job_rate set free_at = statement_timestamp() + $1::interval`, free); err != nil {
			t.Fatal(err)
		}
		if got := ahead(); math.Abs(got-want) > 0.2 {
			t.Errorf("the next instant, where that is in %s, is in %.1f minutes", free, got)
		}
	}
}

func TestARowWithoutAKeyOfItsOwnIsCheckedAllTheSame(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("limited", jobs.Row(done), jobs.AtMost(1), jobs.LimitBy(func(job jobs.FutureJob) string {
		if tenant(job) == "b" {
			panic("no such tenant")
		}
		return tenant(job)
	}))
	w.enqueueTenants("limited", 20, "a", "b")
	if result := w.run(slot(1)); result.Finished != 40 {
		t.Errorf("%+v", result)
	}
}

// A check takes an instant of the rate only if it exists, because other checks wait for the instant.
func TestChecksThatAreNotThereTakeNothingOfALimit(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("limited", jobs.Row(done), jobs.PerSecond(2))
	w.enqueueTenants("limited", 4, "a")
	if result := w.run(slot(1)); result.Finished != 4 {
		t.Errorf("%+v", result)
	}
	if w.count(`select count(*) from prescient.job_rate where free_at < clock_timestamp() + interval '1 second'`) != 1 {
		t.Error("the next check may begin in more than a second, of two in one")
	}
}

// takenPool returns a pool of one connection that is taken until give is called.
func (w *world) takenPool() (own *sqlx.DB, give func()) {
	w.t.Helper()
	own, err := pgsql.Open(w.t.Context(), w.url)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = own.Close() })
	own.SetMaxOpenConns(1)
	taken, err := own.Connx(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return own, func() {
		if err := taken.Close(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// What counts is when the function is called, not when its transaction is asked for.
func TestChecksThatHaveWaitedForAConnectionDoNotBeginAllAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	own, give := w.takenPool()
	g := newGauge()
	w.registry.Register("limited", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) {
		defer g.enter("all")()
		return nil, nil
	}), jobs.PerSecond(5), jobs.WithPool(own))
	w.enqueueTenants("limited", 15, "a")
	w.clock.Set(slot(1))
	running := w.background(slot(1))
	w.eventually("as many as may be wait for the connection", func() bool { return own.Stats().WaitCount == slots.DefaultConnections })
	give()
	if result := <-running; result.Finished != 15 {
		t.Errorf("%+v", result)
	}
	// A busy machine delays some of the calls, so a few more than 5 may begin within a second.
	if most := g.within("all"); most >= slots.DefaultConnections {
		t.Errorf("%d began within a second", most)
	}
}

// What a function makes of a payload may be anything: it must not end the run.
func TestAKeyThatTheDatabaseCannotStoreIsALimitOfItsOwn(t *testing.T) {
	t.Parallel()
	long := make([]byte, 12_000) // which does not become short by compression
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(long)
	for name, bad := range map[string]string{"half a character": "\u00e4"[:1], "a NUL byte": "b\x00", "one too long for an index": fmt.Sprintf("%x", long)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			g := newGauge()
			w.registry.Register("limited", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
				defer g.enter(tenant(job))()
				time.Sleep(time.Millisecond)
				return nil, nil
			}), jobs.AtMost(2), jobs.PerSecond(1000), jobs.LimitBy(func(job jobs.FutureJob) string {
				if tenant(job) == "b" {
					return bad
				}
				return tenant(job)
			}))
			w.enqueueTenants("limited", 20, "a", "b")
			if result := w.run(slot(1)); result.Finished != 40 || g.most["b"] > 2 {
				t.Errorf("%+v, at once %v", result, g.most)
			}
		})
	}
}

// A runner that dies has its permits for as long as its lease.
func TestThePlacesOfADeadRunnerAreFreeWhenItsLeaseEnds(t *testing.T) {
	t.Parallel()
	w := setup(t)
	g := newGauge()
	w.registry.Register("limited", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		defer g.enter("all")()
		return nil, nil
	}), jobs.AtMost(2))
	w.enqueueTenants("limited", 20, "a")
	// Permits are taken already, and no run renews them. One is of a key without rows.
	for token, of := range []struct{ key, lease string }{{"", "0"}, {"", "2 seconds"}, {"gone", "0"}} {
		_, err := w.db.ExecContext(t.Context(), `insert into prescient.job_permit (job, key, token, permits, allocated_until)
			values (prescient.find_job('limited'), $1, $2, 2, clock_timestamp() + $3::interval)`, of.key, token, of.lease)
		if err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	if result := w.run(slot(1)); result.Finished != 20 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
	if left := w.count(`select count(*) from prescient.job_permit`); left != 0 {
		t.Errorf("%d permits are left of dead runs", left)
	}
	if g.began["all"][0].Sub(began) < time.Second || g.most["all"] > 2 {
		t.Errorf("the first check began after %s, and %d were done at once", g.began["all"][0].Sub(began), g.most["all"])
	}
}

// A row that another transaction has locked waits outside of every bound, also of this one.
func TestALockedRowKeepsNoPlaceFromOthers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("limited", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) { return nil, nil }), jobs.AtMost(1))
	w.enqueueTenants("limited", 1, "a")
	release := w.hold(1)
	w.enqueue("limited", slot(2), 10)
	w.clock.Set(slot(2))
	locked := w.background(slot(1))
	w.eventually("the run waits for the row", func() bool {
		return w.count(`select count(*) from prescient.slot_claim where jobs <> '{}'`) == 1
	})
	if result := w.run(slot(2)); result.Finished != 10 {
		t.Errorf("%+v", result)
	}
	release()
	if result := <-locked; result.Finished != 1 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
}

// takeOnlyPermit takes the only permit of a job, as another run does.
func (w *world) takeOnlyPermit(job, lease string) {
	w.t.Helper()
	_, err := w.db.ExecContext(w.t.Context(), `insert into prescient.job_permit (job, key, token, permits, allocated_until)
		values (prescient.find_job($1), '', 1, 1, clock_timestamp() + $2::interval)`, job, lease)
	if err != nil {
		w.t.Fatal(err)
	}
}

// The others at the slot may not know the job whose permit it waits for.
func TestARunnerThatWaitsForAPermitStaysThoughOthersAreAtItsSlot(t *testing.T) {
	t.Parallel()
	w := setup(t)
	release := make(chan struct{})
	others := jobs.NewRegistry()
	others.Register("slow", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { <-release; return nil, nil }))
	w.registry.Register("limited", jobs.Row(done), jobs.AtMost(1))
	w.enqueueTenants("limited", 10, "a")
	w.enqueue("slow", slot(1), 1)
	w.takeOnlyPermit("limited", "4 seconds")
	w.clock.Set(slot(1))
	busy := w.background(slot(1), func(cfg *slots.Config) { cfg.Registry = others })
	w.eventually("the other is at the slot", func() bool { return w.count(`select count(*) from prescient.slot_claim where jobs <> '{}'`) == 1 })
	waits := w.background(slot(1), func(cfg *slots.Config) { cfg.Lease = claim.MinLease })
	w.eventually("the rows are checked", func() bool { return w.count(`select count(*) from prescient.future_job_history`) == 10 })
	close(release)
	if a, b := <-waits, <-busy; a.Finished != 10 || b.Finished != 1 {
		t.Errorf("%+v\n%+v", a, b)
	}
}

// To move rows no permit is needed.
func TestCatchUpMovesAndEndsRowsOfAJobThatIsAtItsLimit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		mode slots.Mode
		opts []jobs.Option
	}{
		"mode defer":     {mode: slots.ModeDefer},
		"misfire defer":  {opts: []jobs.Option{jobs.OnMisfire(jobs.MisfireDefer)}},
		"misfire skip":   {opts: []jobs.Option{jobs.OnMisfire(jobs.MisfireSkip)}},
		"after deadline": {opts: []jobs.Option{jobs.Deadline(time.Minute)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.registry.Register("limited", jobs.Row(done), append(test.opts, jobs.AtMost(1))...)
			w.enqueueTenants("limited", 20, "a")
			w.takeOnlyPermit("limited", "1 hour")
			w.clock.Set(slot(4))
			ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
			defer cancel()
			caught, err := w.runner().CatchUp(ctx, slots.CatchUp{Mode: test.mode})
			if err != nil || len(caught.Results) != 1 || caught.Results[0].Checked != 20 {
				t.Errorf("%+v: %v", caught, err)
			}
		})
	}
}

// When the slot is done by others while a runner waits for a permit, it goes home.
func TestARunnerThatWaitsForAPermitEndsWithItsSlot(t *testing.T) {
	t.Parallel()
	w := setup(t)
	release := make(chan struct{})
	w.registry.Register("limited", jobs.Row(func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil, nil
	}), jobs.AtMost(1))
	w.enqueueTenants("limited", 30, "a")
	w.clock.Set(slot(1))
	first := w.background(slot(1))
	w.eventually("a permit is taken", func() bool { return w.count(`select count(*) from prescient.job_permit`) == 1 })
	second := w.background(slot(1))
	w.eventually("both are at the slot", func() bool {
		return w.count(`select count(*) from prescient.slot_claim where jobs = '{}'`) == 2
	})
	close(release)
	if a, b := <-first, <-second; a.Finished+b.Finished != 30 || a.State != slots.StateDone || b.State != slots.StateDone {
		t.Errorf("%+v\n%+v", a, b)
	}
}

// A check whose connection came late waits for another instant as long as its timeout allows, and is repeated then: it has not
// been called, so it is no error of its row, and not abandoned.
func TestACheckThatWaitsForItsInstantIsNotAbandoned(t *testing.T) {
	t.Parallel()
	w := setup(t)
	own, give := w.takenPool()
	w.registry.Register("limited", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) { return nil, nil }),
		jobs.PerSecond(1), jobs.Timeout(time.Second), jobs.Retry(0), jobs.WithPool(own))
	w.enqueueTenants("limited", 1, "a")
	w.clock.Set(slot(1))
	running := w.background(slot(1))
	w.eventually("the check waits for the connection", func() bool { return own.Stats().WaitCount == 1 })
	// Others have taken the instants of the next seconds.
	if _, err := w.db.ExecContext(t.Context(), `update prescient.job_rate set free_at = statement_timestamp() + interval '6 seconds'`); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // longer than a check may begin late
	give()
	if result := <-running; result.Finished != 1 || result.Failed+int64(result.Abandoned) > 0 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
}

// A binary without limits claims rows of several jobs at once. A runner that takes them over keeps the limit of each job.
func TestLimitsHoldForWhatIsTakenOverFromABinaryWithoutThem(t *testing.T) {
	t.Parallel()
	w := setup(t)
	g := newGauge()
	check := func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		defer g.enter(job.JobExec)()
		time.Sleep(5 * time.Millisecond)
		return nil, nil
	}
	w.registry.Register("plain", jobs.Row(check))
	w.registry.Register("at most", jobs.Row(check), jobs.AtMost(1))
	w.registry.Register("concurrency", jobs.Row(check), jobs.Concurrency(2))
	w.registry.Register("in a transaction", jobs.InTx(func(ctx context.Context, _ *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) { return check(ctx, job) }))
	old := jobs.NewRegistry()
	const rows = 12
	names := []string{"plain", "at most", "concurrency", "in a transaction"}
	var started atomic.Int64
	for _, name := range names {
		old.Register(name, jobs.Row(func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
			started.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		w.enqueue(name, slot(1), rows)
	}
	w.clock.Set(slot(1))
	first := w.runner(func(cfg *slots.Config) { cfg.Registry, cfg.Workers, cfg.Grace = old, len(names)*rows, time.Millisecond })
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() {
		_, err := first.Run(ctx, slot(1))
		stopped <- err
	}()
	w.eventually("all are claimed at once", func() bool { return started.Load() == int64(len(names)*rows) })
	second := w.background(slot(1), func(cfg *slots.Config) { cfg.Connections = 3 })
	w.eventually("another runner is there", func() bool { return w.count(`select count(*) from prescient.slot_claim where jobs = '{}'`) == 2 })
	stop()
	if err := <-stopped; !errors.Is(err, slots.ErrStopped) {
		t.Error(err)
	}
	if result := <-second; result.TakenOver != 1 || result.Finished != int64(len(names)*rows) || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
	if g.most["at most"] > 1 || g.most["concurrency"] > 2 || g.most["in a transaction"] > 3 {
		t.Errorf("at once: %v", g.most)
	}
	if left := w.count(`select count(*) from prescient.job_permit`); left != 0 {
		t.Errorf("%d permits were not given back", left)
	}
}

// Heartbeats renew only the permits that checks use, so one that the run could not give back expires while the run goes on.
func TestAPermitThatCouldNotBeGivenBackIsFreeWhileTheRunGoesOn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	faults := pgtest.OpenFaults(t, w.url, pgtest.Unprepared)
	faults.Set(pgtest.Fault{At: 1, Kind: pgtest.Cut, Of: func(text string) bool { return strings.Contains(text, "delete from prescient.job_permit") }})
	release := make(chan struct{})
	var others atomic.Int64
	w.registry.Register("limited", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		if tenant(job) == "a" {
			<-release
		} else {
			others.Add(1)
		}
		return nil, nil
	}), jobs.AtMost(1), jobs.LimitBy(tenant))
	w.enqueueTenants("limited", 1, "a", "b")
	w.clock.Set(slot(1))
	running := w.background(slot(1), func(cfg *slots.Config) { cfg.DB, cfg.Page, cfg.Lease = faults.DB, 1, 3*time.Second })
	w.eventually("the run has given up a permit", func() bool {
		return others.Load() == 1 && slices.ContainsFunc(faults.Trips(), func(text string) bool { return strings.Contains(text, "delete from prescient.job_permit") })
	})
	w.eventually("another run to get the permit", func() bool { return w.takePermit("limited", "b") })
	if n := w.count(`select count(*) from prescient.job_permit where key = 'a'`); n != 1 {
		t.Errorf("the run has %d permits of the check that goes on", n)
	}
	close(release)
	if result := <-running; result.Finished != 2 || result.Lost != 0 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
}

// Where checks take long a row may wait for its turn for minutes after it was read: what its owner does meanwhile counts.
func TestARowThatIsCancelledOrMovedWhileItWaitsForItsTurnIsNotChecked(t *testing.T) {
	t.Parallel()
	const rows = 4
	for name, register := range map[string]func(r *jobs.Registry, check func(tenant string, keys ...string)){
		"one by one": func(r *jobs.Registry, check func(tenant string, keys ...string)) {
			r.Register("job", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
				check(tenant(job), job.EntityKey)
				return nil, nil
			}), jobs.AtMost(1))
		},
		"a batch of each tenant": func(r *jobs.Registry, check func(tenant string, keys ...string)) {
			r.Register("job", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
				var keys []string
				for _, job := range batch {
					keys = append(keys, job.EntityKey)
				}
				check(tenant(batch[0]), keys...)
				return make([]jobs.Result, len(batch)), nil
			}), jobs.Concurrency(1), jobs.AtMost(1), jobs.LimitBy(tenant))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			begun, release := make(chan string, 2*rows), make(chan struct{})
			var mu sync.Mutex
			var checked []string
			register(w.registry, func(tenant string, keys ...string) {
				mu.Lock()
				checked = append(checked, keys...)
				mu.Unlock()
				begun <- tenant
				<-release
			})
			w.enqueueTenants("job", rows, "a", "b")
			w.clock.Set(slot(1))
			running := w.background(slot(1))
			other := map[string]string{"a": "b", "b": "a"}[<-begun]
			key := func(n int) jobs.Key {
				return jobs.Key{JobExec: "job", EntityName: "invoice", EntityKey: fmt.Sprint(other, "-", n)}
			}
			if found, err := w.client.Cancel(t.Context(), jobs.OwnTx(w.db), key(rows-1)); !found || err != nil {
				t.Fatal(found, err)
			}
			if _, found, err := w.client.Reschedule(t.Context(), jobs.OwnTx(w.db), key(rows-2), slot(9)); !found || err != nil {
				t.Fatal(found, err)
			}
			time.Sleep(4 * time.Second)
			close(release)
			if result := <-running; result.Finished != 2*rows-2 || result.State != slots.StateDone {
				t.Errorf("%+v", result)
			}
			if slices.Contains(checked, key(rows-1).EntityKey) {
				t.Error("a row was checked that had been cancelled")
			}
			if slices.Contains(checked, key(rows-2).EntityKey) {
				t.Error("a row was checked that had been moved to a later slot")
			}
			if len(checked) != 2*rows-2 {
				t.Errorf("checked: %v", checked)
			}
		})
	}
}

// It waits the longer where others have the permit that it needs.
func TestARowThatIsCancelledWhileItWaitsForAPermitIsNotChecked(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var checked atomic.Int64
	w.registry.Register("limited", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		checked.Add(1)
		return nil, nil
	}), jobs.AtMost(1), jobs.LimitBy(tenant))
	w.enqueueTenants("limited", 2, "a")
	_, err := w.db.ExecContext(t.Context(), `insert into prescient.job_permit (job, key, token, permits, allocated_until)
		values (prescient.find_job('limited'), 'a', 1, 1, 'infinity')`)
	if err != nil {
		t.Fatal(err)
	}
	w.clock.Set(slot(1))
	running := w.background(slot(1))
	w.eventually("the rows are claimed", func() bool { return w.count(`select count(*) from prescient.slot_claim where jobs <> '{}'`) == 1 })
	time.Sleep(4 * time.Second)
	found, err := w.client.Cancel(t.Context(), jobs.OwnTx(w.db), jobs.Key{JobExec: "limited", EntityName: "invoice", EntityKey: "a-0"})
	if !found || err != nil {
		t.Fatal(found, err)
	}
	if _, err := w.db.ExecContext(t.Context(), `delete from prescient.job_permit where token = 1`); err != nil {
		t.Fatal(err)
	}
	if result := <-running; result.Finished != 1 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
	if n := checked.Load(); n != 1 {
		t.Errorf("%d rows were checked, of two of which one had been cancelled", n)
	}
}

// An instant that passes unused is one less for all others.
func TestARowThatIsCancelledOrTooLateTakesNoInstantFromOthers(t *testing.T) {
	t.Parallel()
	const rows = 300
	register := map[string]func(w *world, check func(), options ...jobs.Option){
		"a row": func(w *world, check func(), options ...jobs.Option) {
			w.registry.Register("limited", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { check(); return nil, nil }), options...)
		},
		"a row with a transaction": func(w *world, check func(), options ...jobs.Option) {
			w.registry.Register("limited", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) { check(); return nil, nil }), options...)
		},
	}
	ends := map[string]func(w *world){
		"cancelled": func(w *world) {
			w.db.MustExec("select prescient.cancel('limited', 'invoice', 'a-' || n) from generate_series(10, $1) as n", rows-2)
			time.Sleep(4 * time.Second) // then it is looked for
		},
		"too late": func(w *world) { w.clock.Set(slot(1).Add(time.Hour)) },
	}
	if testing.Short() {
		delete(register, "a row")
	}
	for shape, register := range register {
		for what, end := range ends {
			t.Run(shape+" that is "+what, func(t *testing.T) {
				t.Parallel()
				w := setup(t)
				var once sync.Once
				began := time.Now()
				register(w, func() {
					once.Do(func() { end(w); began = time.Now() })
				}, jobs.PerSecond(1), jobs.AtMost(1), jobs.Deadline(time.Minute))
				w.enqueueTenants("limited", rows, "a")
				w.clock.Set(slot(1))
				result := <-w.background(slot(1), func(c *slots.Config) { c.Workers = 60 })
				if result.State != slots.StateDone {
					t.Errorf("%+v", result)
				}
				if took := time.Since(began); took > rows*time.Second*2/3 {
					t.Errorf("%d checks were begun in %s: %+v", w.outcomes()[jobs.OutcomeDone], took, result)
				}
			})
		}
	}
}

// Any login may take the lock for as long as it likes. A run only tries to, so no session is seen waiting.
func TestARunThatGetsNoPlacesChecksOtherJobsAndNamesTheSessionInItsWay(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "the lock is that of the worker")
	for name, option := range map[string][]jobs.Option{
		"of the job":     {jobs.AtMost(1)},
		"of each tenant": {jobs.AtMost(1), jobs.LimitBy(tenant)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.registry.Register("limited", jobs.Row(done), option...)
			w.registry.Register("job", jobs.Row(done))
			w.enqueue("limited", slot(1), 3)
			w.enqueue("job", slot(1), 300)
			holder := w.db.MustBegin()
			defer func() { _ = holder.Rollback() }()
			holder.MustExec(`select pg_advisory_xact_lock(hashtextextended('prescient.permits ' || prescient.find_job('limited'), 0))`)
			var pid string
			if err := holder.Get(&pid, "select pg_backend_pid()"); err != nil {
				t.Fatal(err)
			}
			var log syncBuffer
			w.clock.Set(slot(1))
			finished := w.background(slot(1), func(c *slots.Config) { c.Lease, c.Logger = time.Second, slog.New(slog.NewTextHandler(&log, nil)) })
			w.eventually("the other job to be done", func() bool { return w.ended() == 300 })
			w.eventually("the log to name the session", func() bool {
				return strings.Contains(log.String(), `msg="waiting for a lock that another session has"`) &&
					strings.Contains(log.String(), `permits_of=limited holder="session `+pid+` of `)
			})
			if err := holder.Rollback(); err != nil {
				t.Fatal(err)
			}
			if result := <-finished; result.Finished != 303 || result.State != slots.StateDone {
				t.Errorf("%+v", result)
			}
		})
	}
}

// The functions of a schema name their locks after it.
func TestARunInAnotherSchemaNamesTheSessionThatHasTheLockOfAGroupOrALimit(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "the lock is that of the worker")
	w := setup(t)
	const schema = "shop"
	if err := pgsql.Migrate(t.Context(), w.db, schema); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.ledger, err = ledger.New(t.Context(), w.db, schema, w.clock.Now); err != nil {
		t.Fatal(err)
	}
	if err := w.ledger.Begin(t.Context(), slot(1)); err != nil {
		t.Fatal(err)
	}
	if w.client, err = jobs.NewClient(t.Context(), w.db, jobs.Config{Schema: schema, Now: w.clock.Now}); err != nil {
		t.Fatal(err)
	}
	w.registry.Register("limited", jobs.Row(done), jobs.AtMost(1))
	w.registry.Register("job", jobs.Group("family", doneGroup))
	w.enqueue("limited", slot(1), 1)
	w.enqueueGroups(1, "household")
	holder := w.db.MustBegin()
	defer func() { _ = holder.Rollback() }()
	holder.MustExec(`select shop.lock_group('household')`)
	holder.MustExec(`select from shop.acquire_permits(shop.find_job('limited'), '{}', '{}', 1, 99, '1 hour')`)
	var session string
	if err := holder.Get(&session, `select 'holder="session ' || pg_backend_pid() || ' of '`); err != nil {
		t.Fatal(err)
	}
	var log syncBuffer
	w.clock.Set(slot(1))
	running := w.startRun(t.Context(), w.runner(func(c *slots.Config) {
		c.Schema, c.Logger = schema, slog.New(slog.NewTextHandler(&log, nil))
	}))
	for _, about := range []string{"permits_of=limited ", "group=household "} {
		w.eventually("the log to name the session for "+about, func() bool { return strings.Contains(log.String(), about+session) })
	}
	_ = holder.Rollback()
	if result := endOf(t, running); result.err != nil || result.Finished != 2 {
		t.Errorf("%+v", result)
	}
}
