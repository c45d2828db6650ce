package slots_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/defaults"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/replay"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/internal/claim"
	"github.com/prescient-go/prescient/slots/ledger"
	"github.com/prescient-go/prescient/sql/pgtest"
)

const (
	// trialLease is that of every runner of a trial.
	trialLease = claim.MinLease
	// trialGrace is how long they go on when they are told to stop.
	trialGrace = 500 * time.Millisecond
	// healedWithin is how long a slot may stay open after what has gone wrong: lease, heartbeat and five seconds.
	healedWithin = trialLease + trialLease/3 + 5*time.Second
	// returnsWithin is how long a run may go on that cannot reach its database, or has nothing left to do.
	returnsWithin = await.Limit
)

// trial is a scenario in which something goes wrong once: a process A that it happens to, somebody else who does
// something, and a process H that heals.
type trial struct {
	t         testing.TB
	scenario  *scenario
	hazard    hazard
	testbed   *testbed
	db        *sqlx.DB // of every session but A
	client    *jobs.Client
	clock     *replay.Clock
	rows      []row
	committed int // of rows: those that can be seen when A begins
	seen      *seen
	deed      deed // what another session did
	deedDone  chan struct{}
	resumed   time.Time // by the database's clock: when paused jobs were
	hit       string    // the round trip at which something went wrong

	wasSlow func() bool // since the trial began: then leases are lost, and limits of time mean nothing

	mu        sync.Mutex
	processes []*process
	requests  []request
	complaint []string
}

// row is one that waits when the trial begins.
type row struct {
	job, entity, key, group string
	slot                    time.Time

	id             int64
	checks, errors int
}

func (r row) natural() jobs.Key {
	return jobs.Key{JobExec: r.job, EntityName: r.entity, EntityKey: r.key}
}

// complain records a broken promise.
func (c *trial) complain(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.complaint = append(c.complaint, fmt.Sprintf(format, args...))
}

// complaints lists the broken promises.
func (c *trial) complaints() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.complaint)
}

// process is a runner with a pool and a registry of its own.
type process struct {
	name   string
	trial  *trial
	db     *sqlx.DB
	faults *pgtest.Faults // nil: nothing goes wrong in it
	cfg    slots.Config
	runner *slots.Runner

	ended   chan struct{} // of begin
	results []slots.Result
	err     error
}

// process makes one; faults may be nil.
func (c *trial) process(name string, faults *pgtest.Faults) *process {
	p := &process{name: name, trial: c, db: c.db, faults: faults, ended: make(chan struct{})}
	if faults != nil {
		p.db = faults.DB
	}
	registry := jobs.NewRegistry()
	c.scenario.register(p, registry)
	p.cfg = slots.Config{
		DB: p.db, Registry: registry, Name: name, Workers: 4, Connections: 2, Page: 4, Lease: trialLease, Grace: trialGrace,
		Now: c.clock.Now, Logger: slog.New(slog.DiscardHandler),
	}
	if c.scenario.configure != nil {
		c.scenario.configure(&p.cfg)
	}
	c.mu.Lock()
	c.processes = append(c.processes, p)
	c.mu.Unlock()
	return p
}

// alive waits while the process stands still, and is false when it is dead: its functions do nothing then.
func (p *process) alive() bool { return p.faults == nil || p.faults.Alive() }

// dead is alive without the wait.
func (p *process) dead() bool {
	if p.faults == nil {
		return false
	}
	select {
	case <-p.faults.Died():
		return true
	default:
		return false
	}
}

// prepare makes the runner.
func (p *process) prepare(ctx context.Context) error {
	if p.runner != nil {
		return nil
	}
	runner, err := slots.NewRunner(ctx, p.cfg)
	p.runner = runner
	return err
}

// run runs a slot.
func (p *process) run(ctx context.Context, at time.Time) error {
	if err := p.prepare(ctx); err != nil {
		return err
	}
	result, err := p.runner.Run(ctx, at)
	p.results = append(p.results, result)
	return err
}

// catchUp catches up.
func (p *process) catchUp(ctx context.Context, how slots.CatchUp) error {
	if err := p.prepare(ctx); err != nil {
		return err
	}
	caught, err := p.runner.CatchUp(ctx, how)
	p.results = append(p.results, caught.Results...)
	return err
}

// begin has the process do the scenario's work beside the trial.
func (p *process) begin(ctx context.Context) {
	go func() {
		defer close(p.ended)
		p.err = p.trial.scenario.work(ctx, p)
	}()
}

// within waits for a channel to be closed.
func within(limit time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// newTrial empties the testbed's database and sets the scenario's rows.
func newTrial(t testing.TB, testbed *testbed, sc *scenario, h hazard) *trial {
	t.Helper()
	c := &trial{t: t, scenario: sc, hazard: h, testbed: testbed, clock: replay.NewClock(noon), seen: newSeen(), deedDone: make(chan struct{})}
	c.seen.trial = c
	testbed.reset(t)
	c.db = testbed.db
	var err error
	if c.client, err = jobs.NewClient(t.Context(), c.db, jobs.Config{Now: c.clock.Now}); err != nil {
		t.Fatal(err)
	}
	if err := c.ledger().Begin(t.Context(), slot(1)); err != nil {
		t.Fatal(err)
	}
	sc.seed(c)
	c.committed = len(c.rows)
	return c
}

func (c *trial) ledger() *ledger.Ledger {
	c.t.Helper()
	l, err := ledger.New(c.t.Context(), c.db, "", c.clock.Now)
	if err != nil {
		c.t.Fatal(err)
	}
	return l
}

// rowsOf returns rows of a job. What their checks return is in their keys, see behave.
func rowsOf(job string, at time.Time, keys ...string) []row {
	var list []row
	for _, key := range keys {
		list = append(list, row{job: job, entity: "order", key: key, slot: at})
	}
	return list
}

// enqueue sets rows.
func (c *trial) enqueue(db jobs.Tx, rows ...row) {
	c.t.Helper()
	var list []jobs.Request
	for _, r := range rows {
		j := jobs.Request{JobExec: r.job, EntityName: r.entity, EntityKey: r.key, GroupKey: r.group}
		j.CheckAt = r.slot
		list = append(list, j)
	}
	if n, err := c.client.EnqueueMany(c.t.Context(), db, list); err != nil || n.Inserted != int64(len(rows)) {
		c.t.Fatal(n, err)
	}
	const counts = `
		update prescient.future_job f
		set check_count = case when f.entity_key like 'last%' then $1 else 0 end, error_count = case when f.entity_key like 'giveup%' then $2 else 0 end
		from prescient.job j
		where j.job = f.job and f.next_check_at = $3 and j.name = $4 and f.entity_key = $5
		returning f.id, f.check_count, f.error_count`
	for _, r := range rows {
		args := []any{defaults.MaxChecks - 1, defaults.Retry, r.slot, r.job, r.key}
		if err := pg.One(c.t.Context(), db, counts, args, &r.id, &r.checks, &r.errors); err != nil {
			c.t.Fatal(err)
		}
		c.rows = append(c.rows, r)
	}
}

// play has the trial take place, up to the moment when every slot should be as it should be.
func (c *trial) play(at boundary) *pgtest.Faults {
	c.t.Helper()
	faults := pgtest.OpenFaults(c.t, c.testbed.url, c.scenario.pool)
	faults.DB.SetMaxOpenConns(8)
	a := c.process("A", faults)
	c.clock.Set(c.scenario.now)
	if !c.scenario.fromTheStart {
		if err := a.prepare(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
	}
	beside := func() {}
	if c.scenario.before != nil {
		c.scenario.before(c)
	}
	if c.scenario.beside != nil {
		beside = c.scenario.beside(c)
	}
	faults.Set(c.fault(at))
	ctx, kill := context.WithCancel(context.WithoutCancel(c.t.Context()))
	defer kill()
	if c.scenario.stops {
		c.seen.onStart(2, kill)
	}
	a.begin(ctx)

	overtake := make(<-chan struct{}) // never, unless another runner takes the work over while A stands still
	if c.hazard.overtaken {
		overtake = faults.Happened()
	}
	select {
	case <-a.ended:
	case <-overtake:
	case <-faults.Died():
		kill()
	case <-time.After(returnsWithin):
		c.complain("A has not returned after %s", returnsWithin)
		kill()
	}
	if k, _ := faults.Hit(); k > 0 && c.hazard.actor != nil && !within(returnsWithin, c.deedDone) {
		c.complain("%s has not ended after %s", c.hazard.name, returnsWithin)
	}
	beside()
	c.judgeA(a)
	c.heal(a)
	if k, _ := faults.Hit(); k > 0 && c.hazard.forever {
		faults.Kill()
		kill()
	}
	if faults.Alive() {
		if !within(returnsWithin, a.ended) {
			c.complain("A has not returned after %s", returnsWithin)
		}
		c.heal(a)
	} else {
		c.testbed.lingers(a)
	}
	return faults
}

// boundary is the n-th round trip of A of a kind. A run is concurrent, so its round trips come in no fixed order.
type boundary struct {
	label string
	n     int // 0: none
}

func (b boundary) String() string { return fmt.Sprintf("%s %d", b.label, b.n) }

// about is the tables and functions of a statement.
var about = regexp.MustCompile(`prescient\.(\w+)|(effect\b|pg_try_advisory_xact_lock|execute prescient_\w+)|^(\w+)$`)

// labelOf names the kind of a round trip by what it is about, such as "claim_rows".
func labelOf(text string) string {
	var names []string
	for _, found := range about.FindAllStringSubmatch(text, -1) {
		if name := found[1] + found[2] + found[3]; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return cmp.Or(strings.Join(names, "+"), fmt.Sprintf("%.40s", text))
}

// fault is a failure at a round trip of A.
func (c *trial) fault(at boundary) pgtest.Fault {
	f := c.hazard.fault
	f.At, f.Reset = at.n, at.n%2 == 0
	f.Of = func(text string) bool { return labelOf(text) == at.label }
	if c.hazard.actor != nil {
		target := c.rows[(at.n*7+len(c.hazard.name)+len(at.label))%c.committed]
		f.First = func() {
			defer close(c.deedDone)
			c.deed = c.hazard.actor(c, target)
		}
	}
	return f
}

// judgeA says what is to be expected of A itself, where nothing has happened to it that a runner cannot get over alone.
func (c *trial) judgeA(a *process) {
	select {
	case <-a.ended:
	default:
		return
	}
	if a.dead() || c.hazard.overtaken || c.scenario.fromTheStart && a.runner == nil {
		return
	}
	switch {
	case c.scenario.stops && errors.Is(a.err, slots.ErrStopped):
		var kept []int64
		c.list(&kept, `select token from prescient.slot_claim where runner = 'A' and allocated_until >= clock_timestamp()`)
		if len(kept) > 0 && c.hazard.lossless() {
			c.complain("A has not handed back claims: %v", kept)
		}
	case a.err != nil && !c.wasSlow():
		c.complain("A failed: %v", a.err)
	case a.err != nil:
	case c.scenario.completes && !c.hazard.shares && a.results[len(a.results)-1].State != slots.StateDone:
		c.complain("A left the slot open: %+v", a.results[len(a.results)-1])
	}
}

// heal has a healthy process run the slot and catch up, until nothing is left to be done.
func (c *trial) heal(a *process) {
	c.t.Helper()
	h := c.process("H", nil)
	began := time.Now()
	ctx, cancel := context.WithTimeout(c.t.Context(), returnsWithin)
	defer cancel()
	for resumed := false; ; {
		if err := c.scenario.heal(ctx, h); err != nil {
			c.complain("H failed: %v", err)
			return
		}
		left := c.left()
		if left == "" && resumed {
			break
		}
		if left == "" {
			// Pausing lets a slot be done without the rows of the job.
			if c.resumed.IsZero() {
				if err := c.testbed.admin.GetContext(ctx, &c.resumed, `select clock_timestamp()`); err != nil {
					c.t.Fatal(err)
				}
			}
			for _, paused := range c.paused() {
				if _, err := admin.New(c.client).Resume(ctx, c.db, paused); err != nil {
					c.complain("resume: %v", err)
				}
			}
			resumed = true
			continue
		}
		if took := time.Since(began); took > healedWithin && !c.wasSlow() || took > returnsWithin {
			c.complain("after %s of healing: %s", took.Round(time.Millisecond), left)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	var checked int64
	for _, r := range h.results {
		if !r.Slot.Equal(slot(4)) { // which no run has missed
			checked += r.Checked
		}
	}
	select {
	case <-a.ended:
		if !a.dead() && a.err == nil && c.scenario.completes && !c.hazard.shares && !c.hazard.overtaken && checked > 0 {
			c.complain("A returned, and left %d rows to H", checked)
		}
	default:
	}
}

// left tells what is left to be done: slots that are not done, and rows of jobs that are not paused in slots that are.
func (c *trial) left() string {
	var left []string
	c.list(&left, `
		select format('slot %s is %s', s, coalesce(r.state, 'missed'))
		from unnest($1::timestamptz[]) as s
		left join prescient.slot_run r on r.slot = s
		where r.state is distinct from 'done'
		union all
		select format('%s rows of job %s are left in slot %s', count(*), j.name, f.next_check_at)
		from prescient.future_job f
		join prescient.job j on j.job = f.job and j.paused_at is null
		where f.next_check_at <= $2
		group by j.name, f.next_check_at`, pq.Array(c.scenario.slots), c.clock.Now())
	return strings.Join(left, ", ")
}

func (c *trial) paused() (names []string) {
	c.list(&names, `select name from prescient.job where paused_at is not null`)
	return names
}

// list reads a column, or rows of a struct.
func (c *trial) list(dest any, query string, args ...any) {
	c.t.Helper()
	if err := c.testbed.admin.SelectContext(c.t.Context(), dest, query, args...); err != nil {
		c.t.Fatal(fmt.Errorf("%s: %w", query, err))
	}
}
