package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/vgarvardt/gue/v5"
	"github.com/vgarvardt/gue/v5/adapter/pgxv5"
)

const gueKeeps = "keeps no history, one transaction a job"

// gueSchema is migrations/schema.sql of gue.
const gueSchema = `
	create table gue_jobs (
		job_id      text        not null primary key,
		priority    smallint    not null,
		run_at      timestamptz not null,
		job_type    text        not null,
		args        bytea       not null,
		error_count integer     not null default 0,
		last_error  text,
		queue       text        not null,
		created_at  timestamptz not null,
		updated_at  timestamptz not null
	);
	create index idx_gue_jobs_selector on gue_jobs (queue, run_at, priority)`

// gueQueue is a database with gue's schema.
type gueQueue struct {
	*database
	client *gue.Client
}

func (s *server) gue(ctx context.Context, name string) (*gueQueue, error) {
	d, err := s.database(ctx, name)
	if err != nil {
		return nil, err
	}
	client, err := gue.NewClient(pgxv5.NewConnPool(d.pool))
	if err == nil {
		err = d.exec(ctx, gueSchema)
	}
	if err != nil {
		d.drop(ctx)
		return nil, fmt.Errorf("set up gue: %w", err)
	}
	return &gueQueue{d, client}, nil
}

func (q *gueQueue) fill(ctx context.Context, rows int) error {
	if err := q.exec(ctx, "truncate gue_jobs"); err != nil {
		return err
	}
	const batch = 10_000
	for from := 0; from < rows; from += batch {
		var list []*gue.Job
		for i := from; i < min(from+batch, rows); i++ {
			list = append(list, &gue.Job{Type: jobName, Queue: "bench", Args: []byte(payloadOf(1_000_000_001 + i))})
		}
		if err := q.client.EnqueueBatch(ctx, list); err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
	}
	return q.exec(ctx, "vacuum (analyze) gue_jobs")
}

// work does the due jobs with a pool of workers.
func (q *gueQueue) work(ctx context.Context, rows, workers int) (part, error) {
	var left atomic.Int64
	left.Store(int64(rows))
	done := make(chan struct{})
	pool, err := gue.NewWorkerPool(q.client, gue.WorkMap{
		jobName: func(context.Context, *gue.Job) error {
			if left.Add(-1) == 0 {
				close(done)
			}
			return nil
		},
	}, workers, gue.WithPoolQueue("bench"), gue.WithPoolPollInterval(10*time.Millisecond),
		gue.WithPoolPollStrategy(gue.RunAtPollStrategy), gue.WithPoolGracefulShutdown(nil))
	if err != nil {
		return part{}, fmt.Errorf("make a pool of gue workers: %w", err)
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	p, err := timed(rows, func() error {
		ended := make(chan error, 1)
		go func() { ended <- pool.Run(running) }()
		select {
		case <-done:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%w; %d jobs are left", context.Cause(ctx), left.Load()), <-ended)
		case err := <-ended:
			return fmt.Errorf("the pool ended: %w", err)
		}
		stop() // the jobs in hand are finished
		return <-ended
	})
	if err != nil {
		return p, fmt.Errorf("work with gue: %w", err)
	}
	return p, q.expect(ctx, 0, "select count(*) from gue_jobs")
}
