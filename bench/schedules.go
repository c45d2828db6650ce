package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// schedules creates schedules that are all due in one slot, and runs it: each publishes one event to the outbox and
// moves on by a day. Then as many instants of one more are backfilled.
func schedules(ctx context.Context, b *bench) error {
	s, err := b.server.store(ctx, "schedules")
	if err != nil {
		return err
	}
	defer s.drop(ctx)
	n := 10 * b.rows
	if b.short {
		n = b.rows / 10
	}
	created, err := s.createSchedules(ctx, n)
	if err != nil {
		return err
	}
	rates := func(what string, p part, note string) {
		b.report.add(figure{
			Workload: "schedules", Case: what + " " + short(n), Subject: "prescient", Unit: "rows/s", Value: p.rate(),
			Note: note,
		}, 0, nil)
	}
	waiting, err := s.bytesPerRow(ctx, n, "schedule", "schedule_pkey", "future_job", "future_job_pkey", "future_job_key")
	if err != nil {
		return err
	}
	rates("create", created, waiting)
	if err := s.vacuum(ctx); err != nil {
		return err
	}
	ran, memory, err := s.runSchedules(ctx, b, n)
	if err != nil {
		return err
	}
	published, err := s.bytesPerRow(ctx, n, "event_outbox", "event_outbox_pkey")
	if err != nil {
		return err
	}
	rates("publish one slot of", ran, memory+"; "+published)
	if err := s.expect(ctx, n, "select count(distinct id) from prescient.event_outbox"); err != nil {
		return err
	}
	filled, err := s.backfillSchedule(ctx, n)
	if err != nil {
		return err
	}
	rates("backfill", filled, "instants of one schedule, beside the events of the other schedules")
	return s.expect(ctx, 2*n, "select count(distinct id) from prescient.event_outbox")
}

// backfillSchedule publishes n instants that have passed.
func (s *store) backfillSchedule(ctx context.Context, n int) (part, error) {
	now := s.slot(0)
	store, err := schedule.NewStore(ctx, s.db, schedule.Config{Now: func() time.Time { return now }})
	if err != nil {
		return part{}, err
	}
	from := now.Add(-time.Duration(n) * time.Second)
	_, err = store.Create(ctx, s.db, schedule.Spec{
		ID: "backfilled", Crontab: "@every 1s", Anchor: from, Payload: []byte(payloadOf(0)),
	})
	if err != nil {
		return part{}, err
	}
	to := &schedule.PublishConfig{Publisher: outbox.New(s.db, "")}
	return timed(n, func() error {
		_, err := store.Backfill(ctx, s.db, to, "backfilled", from, now)
		return err
	})
}

// createSchedules creates them in the order of random ids, as they come from customers.
func (s *store) createSchedules(ctx context.Context, n int) (part, error) {
	at := s.slot(0)
	store, err := schedule.NewStore(ctx, s.db, schedule.Config{Now: func() time.Time { return at.Add(-time.Hour) }})
	if err != nil {
		return part{}, err
	}
	random := rand.New(rand.NewPCG(1, 2))
	crontab := fmt.Sprintf("%d %d * * *", at.Minute(), at.Hour())
	return timed(n, func() error {
		_, err := store.CreateAll(ctx, s.db, func(yield func(schedule.Spec) bool) {
			for i := range n {
				id := fmt.Sprintf("%016x-%d", random.Uint64(), i)
				if !yield(schedule.Spec{ID: id, Crontab: crontab, Payload: []byte(payloadOf(i))}) {
					return
				}
			}
		})
		return err
	})
}

func (s *store) runSchedules(ctx context.Context, b *bench, n int) (p part, memory string, err error) {
	registry := jobs.NewRegistry()
	schedule.Register(registry, &schedule.PublishConfig{Publisher: outbox.New(s.db, "")})
	p, err = b.measure(ctx, side{name: "schedules", measure: func(ctx context.Context) (part, error) {
		_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o600) // forgets the peak; without it the peak is of all
		return s.run(ctx, registry, s.slot(0), n)
	}})
	return p, peakMemory(), err
}

// peakMemory is what this process has had at the most.
func peakMemory() string {
	status, _ := os.ReadFile("/proc/self/status")
	peak := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if peak == nil {
		return ""
	}
	kB, _ := strconv.Atoi(string(peak[1]))
	return fmt.Sprintf("%d MB of memory at the most", kB>>10)
}

// bytesPerRow is what relations take on disk, a row each.
func (s *store) bytesPerRow(ctx context.Context, rows int, relations ...string) (string, error) {
	var list []string
	for _, relation := range relations {
		bytes, err := s.count(ctx, "select pg_relation_size('prescient."+relation+"')")
		if err != nil {
			return "", err
		}
		list = append(list, fmt.Sprintf("%s %.0f", relation, float64(bytes)/float64(rows)))
	}
	return "bytes a row: " + strings.Join(list, ", "), nil
}
