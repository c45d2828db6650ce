package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
)

const (
	daySlots   = 96
	slotOfDay  = 15 * time.Minute
	outageFrom = 40 // two hours
	outageTo   = 48
	// createdPerMinute of the day is 5,000 where there are 30 million schedules.
	createdPerMinute = 5000.0 / 30_000_000
	// alone is how many of those of a slot are created in a transaction each, beside its run, to see how long one takes.
	alone = 500
)

// virtualDay has schedules live through a day of virtual time: each publishes once, at a minute of its own; others are created
// meanwhile, and for two hours nothing runs. What is published is compared with what arithmetic says.
type virtualDay struct {
	*bench
	store     *store
	schedules *schedule.Store
	registry  *jobs.Registry
	now       atomic.Pointer[time.Time]
	random    *rand.Rand
	created   int

	expected, published sum
	took                []time.Duration // of runs
	creates             []time.Duration // of one schedule
}

// sum tells whether two sets of ids are the same, in whatever order they come.
type sum struct {
	count int
	mix   uint64
}

func (s *sum) add(id string) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	s.count++
	s.mix += h.Sum64()
}

func day(ctx context.Context, b *bench) error {
	s, err := b.server.store(ctx, "day")
	if err != nil {
		return err
	}
	defer s.drop(ctx)
	d := &virtualDay{bench: b, store: s, registry: jobs.NewRegistry(), random: rand.New(rand.NewPCG(1, 2))}
	d.set(s.slot(0).Add(-slotOfDay))
	clock := func() time.Time { return *d.now.Load() }
	if d.schedules, err = schedule.NewStore(ctx, s.db, schedule.Config{Now: clock}); err != nil {
		return err
	}
	schedule.Register(d.registry, &schedule.PublishConfig{Publisher: outbox.New(s.db, "")})
	l, err := ledger.New(ctx, s.db, "", clock)
	if err != nil {
		return err
	}
	if err := l.Begin(ctx, s.slot(0)); err != nil {
		return err
	}
	return errors.Join(d.fill(ctx), d.live(ctx), d.tell(ctx))
}

func (d *virtualDay) set(now time.Time) { d.now.Store(&now) }

// spec is a new schedule, of which is known what it will publish on this day.
func (d *virtualDay) spec() schedule.Spec {
	d.created++
	id := fmt.Sprintf("%08x-%d", d.random.Uint32(), d.created)
	// The first minute of the day is the one after the slot before its first slot.
	at := d.store.slot(0).Add(-slotOfDay).Add(time.Duration(1+d.random.IntN(24*60)) * time.Minute)
	if at.After(*d.now.Load()) {
		d.expected.add(fmt.Sprintf("%s-%d", id, at.Unix()))
	}
	return schedule.Spec{
		ID: id, Crontab: fmt.Sprintf("%d %d * * *", at.Minute(), at.Hour()), Payload: []byte(`{"user": 1234}`),
	}
}

func (d *virtualDay) specs(n int) func(yield func(schedule.Spec) bool) {
	return func(yield func(schedule.Spec) bool) {
		for range n {
			if !yield(d.spec()) {
				return
			}
		}
	}
}

// fill creates the schedules that there are when the day begins.
func (d *virtualDay) fill(ctx context.Context) error {
	started := clock()
	for left := d.bench.schedules; left > 0; left -= chunk {
		if _, err := d.schedules.CreateAll(ctx, d.store.db, d.specs(min(left, chunk))); err != nil {
			return err
		}
		d.log.InfoContext(ctx, "created", "schedules", d.created, "took", time.Since(started).Round(time.Second))
	}
	d.figure("create", float64(d.created)/time.Since(started).Seconds(), rowsPerSecond, "")
	return d.store.exec(ctx, "vacuum (analyze) prescient.future_job, prescient.schedule")
}

// live goes through the slots of the day.
func (d *virtualDay) live(ctx context.Context) error {
	perSlot := int(createdPerMinute * float64(d.bench.schedules) * slotOfDay.Minutes())
	for k := range daySlots {
		d.set(d.store.slot(k))
		ran := make(chan error, 1)
		if k >= outageFrom && k < outageTo {
			ran <- nil
		} else {
			go func() { ran <- d.runSlot(ctx, k) }()
		}
		if err := errors.Join(d.create(ctx, perSlot), <-ran); err != nil {
			return fmt.Errorf("slot %d: %w", k, err)
		}
		if err := d.collect(ctx); err != nil {
			return err
		}
		d.log.InfoContext(ctx, "slot", "number", k, "published", d.published.count, "schedules", d.created)
	}
	return nil
}

func (d *virtualDay) runSlot(ctx context.Context, k int) error {
	started := clock()
	runner, err := slots.NewRunner(ctx, slots.Config{
		DB: d.store.db, Registry: d.registry, Now: func() time.Time { return *d.now.Load() },
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	if k == outageTo {
		if _, err := runner.CatchUp(ctx, slots.CatchUp{}); err != nil {
			return err
		}
	}
	result, err := runner.Run(ctx, d.store.slot(k))
	if err == nil && (result.State != slots.StateDone || result.Failed > 0) {
		err = fmt.Errorf("it is %s, %d failed", result.State, result.Failed)
	}
	if k != outageTo {
		d.took = append(d.took, time.Since(started))
	}
	return err
}

// create creates schedules beside a run: some in a transaction each, the rest in one.
func (d *virtualDay) create(ctx context.Context, n int) error {
	for range min(n, alone) {
		spec, started := d.spec(), clock()
		if _, err := d.schedules.Create(ctx, d.store.db, spec); err != nil {
			return err
		}
		d.creates = append(d.creates, time.Since(started))
	}
	_, err := d.schedules.CreateAll(ctx, d.store.db, d.specs(max(0, n-alone)))
	return err
}

// collect takes what was published out of the outbox.
func (d *virtualDay) collect(ctx context.Context) error {
	rows, err := d.store.db.QueryContext(ctx, "select id from prescient.event_outbox")
	if err != nil {
		return fmt.Errorf("read the outbox: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var id sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&id); err != nil {
			return fmt.Errorf("read the outbox: %w", err)
		}
		d.published.add(string(id))
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the outbox: %w", err)
	}
	return d.store.exec(ctx, "truncate prescient.event_outbox")
}

// tell reports the day, and fails where something else was published than should have been.
func (d *virtualDay) tell(ctx context.Context) error {
	if len(d.took) == 0 || len(d.creates) == 0 {
		return errors.New("the day did not come to its end")
	}
	var disk string
	err := d.store.db.QueryRowContext(ctx, `select pg_size_pretty(pg_database_size(current_database()))`).Scan(&disk)
	if err != nil {
		return fmt.Errorf("read the size: %w", err)
	}
	seconds := func(list []time.Duration, part float64) float64 {
		slices.Sort(list)
		return list[int(part*float64(len(list)-1))].Seconds()
	}
	d.figure("publish, with those that were created on the day", float64(d.published.count), "events",
		fmt.Sprintf("%s on disk; %s", disk, peakMemory()))
	d.figure("run a slot, median", seconds(d.took, 0.5), "s",
		fmt.Sprintf("%.1f s the longest, but for the one after the outage", seconds(d.took, 1)))
	d.figure("create one beside a run, p99", 1000*seconds(d.creates, 0.99), "ms",
		fmt.Sprintf("%.1f ms at the median", 1000*seconds(d.creates, 0.5)))
	if d.published != d.expected {
		return fmt.Errorf("published %+v, and expected %+v", d.published, d.expected)
	}
	return nil
}

func (d *virtualDay) figure(what string, value float64, unit, note string) {
	d.report.add(figure{
		Workload: "day", Case: fmt.Sprintf("a day of %s schedules: %s", short(d.bench.schedules), what), Subject: "prescient",
		Value: value, Unit: unit, Note: note,
	}, 0, nil)
}
