package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/forward"
	_ "github.com/prescient-go/prescient/jobs/event/kafka"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
	pgsql "github.com/prescient-go/prescient/sql"
)

// kafkaTopic gets the events.
const kafkaTopic = "events"

// forwarding is a store of schedules whose events go to Kafka: a broker of franz-go in this process, which shares the
// cores.
type forwarding struct {
	*store
	cluster *kfake.Cluster
	kafka   event.Publisher
	days    int // that were run
}

// events publishes a slot of 10,000 schedules into the outbox, and the same with a forwarder that sends the events to
// Kafka meanwhile, timed until Kafka has the last of them. Then it measures how long one event takes to Kafka, and what
// a consumer costs that wants one event of a thousand.
func events(ctx context.Context, b *bench) (err error) {
	s, err := b.server.store(ctx, "events")
	if err != nil {
		return err
	}
	defer s.drop(ctx)
	f := &forwarding{store: s}
	if f.cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, kafkaTopic)); err != nil {
		return err
	}
	defer f.cluster.Close()
	url := "kafka://" + f.cluster.ListenAddrs()[0] + "/" + kafkaTopic
	if f.kafka, err = event.Open(ctx, url, event.Config{}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.kafka.Close()) }()
	n := min(10_000, b.rows)
	if _, err := s.createSchedules(ctx, n); err != nil {
		return err
	}
	what := fmt.Sprintf("publish a slot of %s schedules", short(n))
	rates, err := b.interleave(ctx, what,
		side{name: "into the outbox", prepare: f.clear, measure: func(ctx context.Context) (part, error) {
			return f.publish(ctx, n)
		}},
		side{name: "to Kafka", prepare: f.clear, measure: func(ctx context.Context) (part, error) {
			return f.forward(ctx, n, f.kafka)
		}},
		side{name: "to a destination that costs nothing", prepare: f.clear, measure: func(ctx context.Context) (part, error) {
			return f.forward(ctx, n, taken{})
		}},
	)
	if err != nil {
		return err
	}
	b.report.compare(figure{
		Workload: "events", Case: what, Subject: "to Kafka", Against: "into the outbox", Unit: rowsPerSecond,
		Note: "until the broker, in the same process, has the last event",
	}, rates[1], rates[0], &target{limit: 0.7})
	b.report.compare(figure{
		Workload: "events", Case: what, Subject: "to a destination that costs nothing", Against: "into the outbox",
		Unit: rowsPerSecond,
	}, rates[2], rates[0], nil)
	if err := f.latency(ctx, b); err != nil {
		return err
	}
	return f.rareType(ctx, b)
}

// clear empties the outbox, and names the consumer again.
func (f *forwarding) clear(ctx context.Context) error {
	err := f.exec(ctx, "truncate prescient.event_outbox, prescient.event_consumer, prescient.event_dead, prescient.event_sent")
	return errors.Join(err, f.vacuum(ctx), forward.Name(ctx, f.config(f.kafka)))
}

func (f *forwarding) config(to event.Publisher, types ...string) forward.Config {
	return forward.Config{
		DB: f.db, Logger: slog.New(slog.DiscardHandler),
		Destinations: []forward.Destination{{Name: "kafka", Address: "kafka", Types: types, Publisher: to}},
	}
}

// publish runs the slot of the next day, in which each schedule publishes an event.
func (f *forwarding) publish(ctx context.Context, n int) (part, error) {
	registry := jobs.NewRegistry()
	schedule.Register(registry, &schedule.PublishConfig{Publisher: outbox.New(f.db, "")})
	slot := f.slot(f.days * int(24*time.Hour/f.grid.Width()))
	f.days++
	p, err := f.run(ctx, registry, slot, n)
	if err != nil {
		return p, err
	}
	return p, f.expect(ctx, n, "select count(*) from prescient.event_outbox")
}

// forward does the same beside a forwarder, as run does.
func (f *forwarding) forward(ctx context.Context, n int, to event.Publisher) (part, error) {
	started := clock()
	forwarder, err := forward.Start(ctx, f.config(to))
	if err != nil {
		return part{}, err
	}
	forwarder.Wake()
	_, err = f.publish(ctx, n)
	sent := forwarder.Finish()
	took := time.Since(started)
	if err == nil && (sent[0].Sent != int64(n) || sent[0].Err != nil) {
		err = fmt.Errorf("the forwarder sent %d of %d events: %w", sent[0].Sent, n, sent[0].Err)
	}
	return part{rows: n, took: took}, err
}

// latency measures from the commit of an event to its arrival at a reader of Kafka. A daemon wakes its forwarder when
// it publishes, as is done here.
func (f *forwarding) latency(ctx context.Context, b *bench) error {
	if err := f.clear(ctx); err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(f.cluster.ListenAddrs()...), kgo.ConsumeTopics(kafkaTopic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	defer client.Close()
	forwarder, err := forward.Start(ctx, f.config(f.kafka))
	if err != nil {
		return err
	}
	defer forwarder.Stop()
	box := outbox.New(f.db, "")
	var all []time.Duration
	for i := range 60 {
		began := clock()
		err := pgsql.InTx(ctx, f.db, func(tx *sqlx.Tx) error {
			list := []event.Event{{ID: fmt.Sprint("latency-", i), Source: "bench", Type: "late", Subject: "one"}}
			if err := box.PublishTx(ctx, tx, list); err != nil {
				return err
			}
			forwarder.Wake()
			began = clock()
			return nil
		})
		if err != nil {
			return err
		}
		fetches := client.PollFetches(ctx)
		if err := errors.Join(fetches.Err(), ctx.Err()); err != nil {
			return err
		}
		if fetches.NumRecords() != 1 {
			return fmt.Errorf("%d records came for one event", fetches.NumRecords())
		}
		if i >= 10 { // the reader begins at the end, and connects
			all = append(all, time.Since(began))
		}
	}
	slices.Sort(all)
	b.report.add(figure{
		Workload: "events", Case: "from the record of an event to a reader of Kafka, median", Subject: "prescient", Unit: "ms",
		Value: ms(all[len(all)/2]),
		Note:  fmt.Sprintf("90th percentile %.0f ms", ms(all[len(all)*9/10])),
	}, ms(all[len(all)/2]), &target{atMost: true, limit: 100, unit: "ms"})
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// taken takes every event.
type taken struct{}

func (taken) Publish(context.Context, []event.Event) error { return nil }
func (taken) Close() error                                 { return nil }

// rareType compares consumers of an outbox of which one event in a thousand has another type: one that wants all
// events, and one that wants the rare ones. Their destination costs nothing.
func (f *forwarding) rareType(ctx context.Context, b *bench) error {
	n := b.rows
	fill := func(ctx context.Context) error {
		if err := f.clear(ctx); err != nil {
			return err
		}
		return f.exec(ctx, fmt.Sprintf(`
			insert into prescient.event_outbox (id, source, type, subject, data)
			select i::text, 'bench', case when i %% 1000 = 0 then 'rare' else 'often' end, i::text, (%s)::json
			from generate_series(1, %d) as i`, payload, n))
	}
	one := func(name string, types ...string) side {
		return side{name: name, prepare: fill, measure: func(ctx context.Context) (part, error) {
			return timed(n, func() error {
				forwarder, err := forward.Start(ctx, f.config(taken{}, types...))
				if err != nil {
					return err
				}
				return forwarder.Finish()[0].Err
			})
		}}
	}
	what := "forward an outbox of " + short(n)
	rates, err := b.interleave(ctx, what, one("all types"), one("one event of 1000", "rare"))
	if err != nil {
		return err
	}
	b.report.compare(figure{
		Workload: "events", Case: what, Subject: "one event of 1000", Against: "all types", Unit: rowsPerSecond,
		Note: "a destination that costs nothing",
	}, rates[1], rates[0], nil)
	return nil
}
