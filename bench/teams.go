package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
)

// team has a schema, of its own or with others, and jobs in it.
type team struct {
	store  *store
	schema pgsql.Schema
	jobs   []string
	client *jobs.Client
}

// teams writes and runs the same rows as one job, as jobs of teams that share a schema, and in a schema for each team.
func teams(ctx context.Context, b *bench) error {
	s, err := b.server.store(ctx, "teams")
	if err != nil {
		return err
	}
	defer s.drop(ctx)
	one, err := s.team(ctx, "", 1)
	if err != nil {
		return err
	}
	shared, err := s.team(ctx, "", b.teams)
	if err != nil {
		return err
	}
	var own []*team
	for i := range b.teams {
		t, err := s.team(ctx, pgsql.Schema(fmt.Sprint("team", i)), 1)
		if err != nil {
			return err
		}
		own = append(own, t)
	}
	for _, rows := range []int{b.rows, max(b.rows/100, b.teams)} {
		for what, measure := range map[string]func(list []*team) side{
			"enqueue": func(list []*team) side { return together(list, rows, empty, enqueueAll) },
			"run":     func(list []*team) side { return together(list, rows, enqueueAll, runAll) },
		} {
			what = fmt.Sprintf("%s %s rows", what, short(rows))
			rates, err := b.interleave(ctx, what, measure([]*team{one}), measure([]*team{shared}), measure(own))
			if err != nil {
				return err
			}
			for i, subject := range []string{
				fmt.Sprintf("%d jobs in one schema", b.teams), fmt.Sprintf("%d schemas, one after another", b.teams),
			} {
				b.report.compare(figure{Workload: "teams", Case: what, Subject: subject, Against: "one job"}, rates[i+1], rates[0],
					nil)
			}
		}
	}
	return nil
}

// team makes the schema of a team.
func (s *store) team(ctx context.Context, schema pgsql.Schema, n int) (*team, error) {
	t := &team{store: s, schema: schema}
	for i := range n {
		t.jobs = append(t.jobs, fmt.Sprint(jobName, i))
	}
	if err := pgsql.Migrate(ctx, s.db, schema); err != nil {
		return nil, err
	}
	var err error
	t.client, err = jobs.NewClient(ctx, s.db, jobs.Config{Schema: schema.String()})
	return t, err
}

// together is a side whose teams share the rows between them, as their jobs do.
func together(list []*team, rows int, prepare, measure func(ctx context.Context, t *team, rows int) error) side {
	each := func(ctx context.Context, fn func(ctx context.Context, t *team, rows int) error) error {
		for _, t := range list {
			if err := fn(ctx, t, rows/len(list)); err != nil {
				return err
			}
		}
		return nil
	}
	return side{
		name:    fmt.Sprintf("%d schemas of %d jobs", len(list), len(list[0].jobs)),
		prepare: func(ctx context.Context) error { return errors.Join(each(ctx, empty), each(ctx, prepare)) },
		measure: func(ctx context.Context) (part, error) {
			return timed(rows, func() error { return each(ctx, measure) })
		},
	}
}

func empty(ctx context.Context, t *team, _ int) error {
	tables := "truncate prescient.future_job, prescient.future_job_history, " + ledger
	return t.store.exec(ctx, strings.ReplaceAll(tables, "prescient.", t.schema.String()+"."))
}

func enqueueAll(ctx context.Context, t *team, rows int) error {
	at := t.store.slot(0)
	n, err := t.client.EnqueueAll(ctx, t.store.db, func(yield func(jobs.FutureJob) bool) {
		for i := range rows {
			job := jobs.FutureJob{
				JobExec: t.jobs[i%len(t.jobs)], EntityName: "order", EntityKey: fmt.Sprint(i), CheckAt: at,
				Payload: []byte(payloadOf(i)),
			}
			if !yield(job) {
				return
			}
		}
	})
	if err == nil && n.Inserted != int64(rows) {
		err = fmt.Errorf("%d of %d rows were written", n.Inserted, rows)
	}
	return err
}

func runAll(ctx context.Context, t *team, rows int) error {
	registry, at := jobs.NewRegistry(), t.store.slot(0)
	for _, name := range t.jobs {
		registry.Register(name, func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil })
	}
	runner, err := slots.NewRunner(ctx, slots.Config{
		DB: t.store.db, Schema: t.schema.String(), Registry: registry, Connections: connections - 4,
		Now:    func() time.Time { return at },
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	result, err := runner.Run(ctx, at)
	if err == nil && result.Finished != int64(rows) {
		err = fmt.Errorf("%d of %d rows were finished", result.Finished, rows)
	}
	return err
}
