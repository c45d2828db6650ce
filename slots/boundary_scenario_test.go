package slots_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// scenario is the work of process A without a fault.
type scenario struct {
	name     string
	now      time.Time
	slots    []time.Time // that are to be done in the end
	seed     func(c *trial)
	register func(p *process, r *jobs.Registry)

	configure func(cfg *slots.Config)                     // of every process
	before    func(c *trial)                              // comes before A
	beside    func(c *trial) (end func())                 // goes on beside A
	work      func(ctx context.Context, p *process) error // default: run slot 1
	heal      func(ctx context.Context, p *process) error // default: run slot 1 and catch up
	allowed   func(c *trial, r row) []verdict             // default: that of the row's key
	judge     func(c *trial, now []place)                 // looks at more than every trial does
	events    bool                                        // the rows are schedules
	asks      bool                                        // the rows are asked for before A begins

	pool         pgtest.Pool // of A
	fromTheStart bool        // the making of the runner counts
	stops        bool        // A is told to stop when it begins its second check
	completes    bool        // A leaves nothing to others, unless it is told to or dies
}

// limited is the job of which a process may do one check at once, and fleet that of which all together may do atMost.
const (
	limited = "limited"
	fleet   = "fleet"
	atMost  = 2
)

// all is a row of each kind, and some more.
var all = []string{"finish 1", "move 1", "fail 1", "finish 2", "giveup 1", "last 1", "move 2", "finish 3"}

// seeding returns a seed of rows of one job in slot 1.
func seeding(job string, keys ...string) func(c *trial) {
	return func(c *trial) { c.enqueue(jobs.OwnTx(c.db), rowsOf(job, slot(1), keys...)...) }
}

// registerAll registers a job of each shape, and those of the scenarios that need more.
func registerAll(p *process, r *jobs.Registry) {
	r.Register("plain", jobs.Row(p.check))
	r.Register("tx", jobs.InTx(p.checkTx))
	r.Register("batch", jobs.Batch(p.batch))
	r.Register("batchtx", jobs.BatchInTx(p.batchTx))
	r.Register("each", jobs.Each(p.checkTx), jobs.BatchSize(4))
	r.Register("asking", jobs.Batch(p.asking))
	r.Register("askingtx", jobs.BatchInTx(p.askingTx))
	family := jobs.Group("family", p.group)
	r.Register("left", family)
	r.Register("right", family)
	r.Register(limited, jobs.Row(p.check), jobs.Concurrency(1))
	r.Register(fleet, jobs.Row(p.check), jobs.AtMost(atMost), jobs.PerSecond(1000))
	for i := range 4 {
		r.Register(fmt.Sprint("small", i), jobs.Row(p.check))
	}
	r.Register("skip", jobs.Row(p.check), jobs.OnMisfire(jobs.MisfireSkip))
	r.Register("defer", jobs.Row(p.check), jobs.OnMisfire(jobs.MisfireDefer))
	r.Register("strict", jobs.InTx(p.checkTx), jobs.Deadline(20*time.Minute))
}

func runSlot1(ctx context.Context, p *process) error { return p.run(ctx, slot(1)) }

func runAndCatchUp(ctx context.Context, p *process) error {
	if err := runSlot1(ctx, p); err != nil {
		return err
	}
	return p.catchUp(ctx, slots.CatchUp{})
}

// missed is when slots 1 to 3 have been missed, and slot 4 has begun.
var missed = slot(4).Add(time.Minute)

// catchUpAndRun heals a scenario of missed slots; those that are left are caught up on as how says.
func catchUpAndRun(how slots.CatchUp) func(ctx context.Context, p *process) error {
	return func(ctx context.Context, p *process) error {
		if err := p.catchUp(ctx, how); err != nil {
			return err
		}
		return p.run(ctx, slot(4))
	}
}

func catchingUp(how slots.CatchUp) func(ctx context.Context, p *process) error {
	return func(ctx context.Context, p *process) error { return p.catchUp(ctx, how) }
}

// scenarios are every shape of a job, and every way to work on a slot.
func scenarios() []*scenario {
	list := []*scenario{
		{name: "checks", seed: seeding("plain", append(all, "panic 1")...), completes: true},
		{name: "checks in transactions", seed: seeding("tx", append(all, "panic 1")...), completes: true},
		{name: "checks in transactions, prepared", seed: seeding("tx", append(all, "panic 1")...), pool: pgtest.Prepared, completes: true},
		{name: "checks in transactions of a plain pool", seed: seeding("tx", all...), pool: pgtest.OfDriver, completes: true},
		{name: "batches", seed: seeding("batch", all...), completes: true},
		{name: "batches in transactions", seed: seeding("batchtx", all...), completes: true},
		{name: "rows that share transactions", seed: seeding("each", append(all, "panic 1")...), completes: true},
		{name: "rows that share transactions, prepared", seed: seeding("each", append(all, "panic 1")...), pool: pgtest.Prepared, completes: true},
		{
			name: "checks that ask for others", completes: true,
			seed: func(c *trial) {
				c.enqueue(jobs.OwnTx(c.db), append(rowsOf("asking", slot(1), all...), rowsOf("askingtx", slot(1), "finish 1", "move 1", "fail 1", "finish 2")...)...)
			},
		},
		{name: "groups over two jobs", seed: seedGroups, completes: true},
		{name: "a job of one check at once", seed: seeding(limited, all...), completes: true},
		{name: "a limit over all runners", seed: seeding(fleet, append(all, "slow 1")...), completes: true},
		{name: "a limit over two runners", seed: seeding(fleet, all...), beside: runBeside},
		{name: "small jobs", seed: seedSmall, completes: true},
		{name: "mixed jobs", seed: seedMixed, completes: true},
		{name: "an empty slot", seed: func(c *trial) { c.enqueue(jobs.OwnTx(c.db), rowsOf("plain", slot(2), "finish 1")...) }, completes: true},
		{
			name: "slow checks", completes: true,
			seed: func(c *trial) {
				c.enqueue(jobs.OwnTx(c.db), append(rowsOf("plain", slot(1), "slow 1", "finish 1"), rowsOf("tx", slot(1), "slow 2", "move 2")...)...)
			},
		},
		{
			name: "rows that somebody has locked", beside: lockRows, completes: true,
			seed: func(c *trial) {
				c.enqueue(jobs.OwnTx(c.db), slices.Concat(
					rowsOf("plain", slot(1), "finish 1", "move 1", "finish 2"), rowsOf("tx", slot(1), "finish 3", "move 3"),
					rowsOf("batchtx", slot(1), "finish 4", "fail 4"),
				)...)
			},
		},
		{name: "rows that are asked for again", seed: seedAskedAgain, before: askForAll, asks: true, completes: true},
		{name: "many rows that are asked for again", seed: seedMany, configure: widely, before: askForAll, asks: true, completes: true},
		{name: "many rows", seed: seedMany, configure: widely, completes: true},
		{name: "many rows of which somebody has locked some", seed: seedMany, configure: widely, beside: lockRows, completes: true},
		{name: "rows that are committed while the slot is open", seed: seedMixed, beside: commitLate, completes: true},
		{name: "a stop", seed: seedMixed, stops: true},
		{name: "a job that the runner does not know", seed: seedMixed, register: func(p *process, r *jobs.Registry) {
			if p.name != "A" {
				registerAll(p, r)
				return
			}
			r.Register("plain", jobs.Row(p.check))
			r.Register("batchtx", jobs.BatchInTx(p.batchTx))
		}},
		{name: "two runners", seed: seedMixed, beside: runBeside},
		{name: "a slot that a dead runner has left", seed: seedMixed, before: dieBefore, completes: true},
		{name: "a process from its start", seed: seeding("plain", "finish 1", "move 1"), fromTheStart: true, completes: true},
		{name: "catch-up that runs", seed: seedMissed, now: missed, completes: true, allowed: misfires},
		{
			name: "catch-up that defers", seed: seedMissed, now: missed, completes: true, allowed: deferred,
			work: catchingUp(slots.CatchUp{Mode: slots.ModeDefer, Spread: 2}), heal: catchUpAndRun(slots.CatchUp{Mode: slots.ModeDefer, Spread: 2}),
		},
		{
			name: "catch-up that expires", seed: seedMissed, now: missed, allowed: misfires,
			work: catchingUp(slots.CatchUp{Mode: slots.ModeExpire}),
		},
		{
			name: "catch-up of some rows", seed: seedMissed, now: missed, allowed: misfires,
			work: catchingUp(slots.CatchUp{Limit: 3}),
		},
		{
			name: "catch-up of one job", seed: seedMissed, now: missed, allowed: misfires,
			work: catchingUp(slots.CatchUp{Job: "tx"}),
		},
		{
			name: "schedules", seed: seedSchedules, events: true, completes: true,
			register: func(p *process, r *jobs.Registry) {
				schedule.Register(r, &schedule.PublishConfig{Publisher: outbox.New(p.db, "")})
			},
		},
		{name: "a rule", seed: seedRule, register: registerRule, judge: stepsAreThoseOfTheChecks, completes: true},
	}
	for _, sc := range list {
		sc.setDefaults()
	}
	return list
}

func (sc *scenario) setDefaults() {
	if sc.register == nil {
		sc.register = registerAll
	}
	switch {
	case sc.events:
		sc.allowed = published
	case sc.allowed == nil:
		sc.allowed = checked
	}
	if sc.now.IsZero() {
		sc.now, sc.slots = slot(1), []time.Time{slot(1)}
	} else {
		sc.slots = []time.Time{slot(1), slot(2), slot(3), slot(4)}
	}
	late := sc.now.Equal(missed)
	switch {
	case sc.work == nil && late:
		sc.work = catchingUp(slots.CatchUp{})
	case sc.work == nil:
		sc.work = runSlot1
	}
	switch {
	case sc.heal == nil && late:
		sc.heal = catchUpAndRun(slots.CatchUp{})
	case sc.heal == nil:
		sc.heal = runAndCatchUp
	}
}

func seedGroups(c *trial) {
	rows := []row{
		{job: "left", key: "finish 1", group: "g1"},
		{job: "left", key: "move 1", group: "g1"},
		{job: "right", key: "fail 1", group: "g1"},
		{job: "right", key: "finish 2", group: "g2"},
		{job: "left", key: "last 2", group: "g2"},
		{job: "left", key: "finish 3"},
		{job: "right", key: "finish 3"},
		{job: "right", key: "giveup 4"},
	}
	for i := range rows {
		rows[i].entity, rows[i].slot = "order", slot(1)
	}
	c.enqueue(jobs.OwnTx(c.db), rows...)
}

func seedSmall(c *trial) {
	c.enqueue(jobs.OwnTx(c.db), slices.Concat(
		rowsOf("small0", slot(1), "finish 1", "move 1"), rowsOf("small1", slot(1), "finish 1"),
		rowsOf("small2", slot(1), "fail 1", "finish 2", "move 2"), rowsOf("small3", slot(1), "giveup 1", "finish 1"),
	)...)
}

func seedMixed(c *trial) {
	c.enqueue(jobs.OwnTx(c.db), slices.Concat(
		rowsOf("plain", slot(1), "finish 1", "move 1", "fail 1"), rowsOf("tx", slot(1), "finish 2", "fail 2"),
		rowsOf("batch", slot(1), "finish 3"), rowsOf("batchtx", slot(1), "move 4", "giveup 4"),
		[]row{
			{job: "left", entity: "order", key: "finish 5", group: "g", slot: slot(1)},
			{job: "right", entity: "order", key: "move 5", group: "g", slot: slot(1)},
		},
		rowsOf("skip", slot(1), "finish 6"), // a slot that is run is not missed, also with helpers
	)...)
}

// seedAskedAgain is rows of each shape.
func seedAskedAgain(c *trial) {
	c.enqueue(jobs.OwnTx(c.db), slices.Concat(
		rowsOf("plain", slot(1), "finish 1", "finish 2", "finish 3", "move 1", "move 2", "move 3", "fail 1", "giveup 1"),
		rowsOf("tx", slot(1), "finish 1", "move 2", "fail 3", "finish 4"),
		rowsOf("each", slot(1), "finish 1", "finish 2", "move 3"),
		rowsOf("batchtx", slot(1), "finish 1", "move 2", "giveup 3"),
		[]row{
			{job: "left", entity: "order", key: "finish 5", group: "g", slot: slot(1)},
			{job: "right", entity: "order", key: "move 5", group: "g", slot: slot(1)},
		},
	)...)
}

// seedMany is of so many rows that they are recorded by statements for many: of some jobs all outcomes are alike.
func seedMany(c *trial) {
	keys := func(kind string, n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprint(kind, " ", i))
		}
		return list
	}
	c.enqueue(jobs.OwnTx(c.db), slices.Concat(
		rowsOf("batch", slot(1), keys("finish", 12)...), rowsOf("batchtx", slot(1), keys("move", 12)...),
		rowsOf("plain", slot(1), slices.Concat(keys("finish", 5), keys("move", 4), keys("fail", 3))...),
	)...)
}

// widely lets a page hold many rows.
func widely(cfg *slots.Config) { cfg.Page, cfg.Workers = 30, 8 }

// seedMissed leaves slot 3 empty. What is in slot 4 is nothing for catch-up.
func seedMissed(c *trial) {
	c.enqueue(jobs.OwnTx(c.db), slices.Concat(
		rowsOf("plain", slot(1), "finish 1", "fail 1"), rowsOf("tx", slot(1), "move 2"), rowsOf("defer", slot(1), "finish 3"),
		rowsOf("skip", slot(1), "finish 4"), rowsOf("strict", slot(1), "finish 5"),
		rowsOf("plain", slot(2), "move 6"), rowsOf("tx", slot(2), "finish 7"), rowsOf("batchtx", slot(2), "finish 8"),
		rowsOf("skip", slot(4), "finish 9"),
	)...)
}

func seedSchedules(c *trial) {
	store := c.store()
	for _, id := range []string{"s1", "s2", "s3", "s4", "s5"} {
		s, err := store.Create(c.t.Context(), c.db, schedule.Spec{ID: id, Crontab: "*/5 * * * *"})
		if err != nil || !s.Slot.Equal(slot(1)) {
			c.t.Fatal(s, err)
		}
		r := row{job: schedule.JobExec, entity: schedule.EntityName, key: id, slot: slot(1)}
		if err := c.db.GetContext(c.t.Context(), &r.id, `select id from prescient.future_job where entity_key = $1`, id); err != nil {
			c.t.Fatal(err)
		}
		c.rows = append(c.rows, r)
	}
}

func (c *trial) store() *schedule.Store {
	c.t.Helper()
	store, err := schedule.NewStore(c.t.Context(), c.db, schedule.Config{Now: c.clock.Now})
	if err != nil {
		c.t.Fatal(err)
	}
	return store
}

// lockRows locks the first row of each job, in another session, for most of a lease.
func lockRows(c *trial) (end func()) {
	tx, err := c.db.BeginTxx(c.t.Context(), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range c.rows {
		if seen[r.job] {
			continue
		}
		seen[r.job] = true
		if _, err := tx.ExecContext(c.t.Context(), `select from prescient.future_job where next_check_at = $1 and id = $2 for update`, r.slot, r.id); err != nil {
			c.t.Fatal(err)
		}
	}
	ended := make(chan struct{})
	time.AfterFunc(trialLease*7/10, func() {
		defer close(ended)
		if err := tx.Rollback(); err != nil {
			c.complain("roll back: %v", err)
		}
	})
	return func() { <-ended }
}

// commitLate commits rows into the slot, in another session, when the first check begins or after a lease.
func commitLate(c *trial) (end func()) {
	c.clock.Set(noon)
	tx, err := c.db.BeginTxx(c.t.Context(), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	c.enqueue(tx, slices.Concat(
		rowsOf("plain", slot(1), "finish late", "move late"), rowsOf("tx", slot(1), "finish late"),
		rowsOf("small0", slot(1), "finish late"), // of a job that had no rows when the slot was opened
	)...)
	c.clock.Set(slot(1))
	commit := sync.OnceFunc(func() {
		if err := tx.Commit(); err != nil {
			c.complain("commit: %v", err)
		}
	})
	c.seen.onStart(1, commit)
	time.AfterFunc(trialLease, commit)
	return commit
}

// dieBefore has a runner die that has recorded some rows, and claimed others.
func dieBefore(c *trial) {
	faults := pgtest.OpenFaults(c.t, c.testbed.url, c.scenario.pool)
	z := c.process("Z", faults)
	if err := z.prepare(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	claims := func(text string) bool { return labelOf(text) == "claim_rows" }
	faults.Set(pgtest.Fault{At: 3, Kind: pgtest.CrashAfter, Of: claims})
	ctx, kill := context.WithCancel(c.t.Context())
	defer kill()
	z.begin(ctx)
	select {
	case <-faults.Died():
	case <-z.ended:
	}
	c.testbed.lingers(z)
}

// runBeside has a second runner begin with A.
func runBeside(c *trial) (end func()) {
	b := c.process("B", nil)
	b.begin(c.t.Context())
	return func() {
		if !within(returnsWithin, b.ended) || b.err != nil && !errors.Is(b.err, slots.ErrStopped) {
			c.complain("B failed: %v", b.err)
		}
	}
}
