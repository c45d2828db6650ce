package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const riverKeeps = "keeps finished rows, in the same table"

// riverArgs are encoded as payload.
type riverArgs struct {
	Order    int64   `json:"order"`
	Customer string  `json:"customer"`
	Currency string  `json:"currency"`
	Amount   float64 `json:"amount"`
	Note     string  `json:"note"`
}

// Kind is the name of the job.
func (riverArgs) Kind() string { return jobName }

func riverJob(i int) riverArgs {
	return riverArgs{
		int64(i), fmt.Sprintf("customer-%d", i%100_000), "EUR", float64(i%1000) + 0.5, "xxxxxxxxxxxxxxxxxxxxxxxxxxxx",
	}
}

// riverQueue is a database with River's schema.
type riverQueue struct {
	*database
	client *river.Client[pgx.Tx] // only inserts
}

func (s *server) river(ctx context.Context, name string) (*riverQueue, error) {
	d, err := s.database(ctx, name)
	if err != nil {
		return nil, err
	}
	q := &riverQueue{database: d}
	if err := q.setUp(ctx); err != nil {
		d.drop(ctx)
		return nil, fmt.Errorf("set up River: %w", err)
	}
	return q, nil
}

func (q *riverQueue) setUp(ctx context.Context) error {
	driver := riverpgxv5.New(q.pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	q.client, err = river.NewClient(driver, &river.Config{Logger: slog.New(slog.DiscardHandler)})
	return err
}

// fill empties the table and inserts jobs; a zero time is now.
func (q *riverQueue) fill(ctx context.Context, rows int, at time.Time) error {
	if err := q.exec(ctx, "truncate river_job"); err != nil {
		return err
	}
	if err := q.add(ctx, rows, at); err != nil {
		return err
	}
	return q.exec(ctx, "vacuum river_job")
}

// add inserts jobs as fast as River can, and tells the planner.
func (q *riverQueue) add(ctx context.Context, rows int, at time.Time) error {
	if err := q.insert(ctx, rows, at, 10_000); err != nil {
		return err
	}
	return q.exec(ctx, "analyze river_job")
}

func (q *riverQueue) insert(ctx context.Context, rows int, at time.Time, batch int) error {
	var opts *river.InsertOpts
	if !at.IsZero() {
		opts = &river.InsertOpts{ScheduledAt: at}
	}
	for from := 0; from < rows; from += batch {
		params := make([]river.InsertManyParams, 0, batch)
		for i := from; i < min(from+batch, rows); i++ {
			params = append(params, river.InsertManyParams{Args: riverJob(1_000_000_001 + i), InsertOpts: opts})
		}
		if _, err := q.client.InsertManyFast(ctx, params); err != nil {
			return fmt.Errorf("insert jobs: %w", err)
		}
	}
	return nil
}

// riverWorker counts the jobs it has done.
type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	fn   func(ctx context.Context, job *river.Job[riverArgs]) error // nil: nothing to do
	left atomic.Int64
	done chan struct{}
}

// Work does one job.
func (w *riverWorker) Work(ctx context.Context, job *river.Job[riverArgs]) error {
	if w.fn != nil {
		if err := w.fn(ctx, job); err != nil {
			return err
		}
	}
	if w.left.Add(-1) == 0 {
		close(w.done)
	}
	return nil
}

// riverRun is one client at work.
type riverRun struct {
	*riverQueue
	worker *riverWorker
	client *river.Client[pgx.Tx]
	rows   int
}

// newRun prepares a client for rows jobs. Cooldown and poll interval are the smallest that River takes.
func (q *riverQueue) newRun(
	rows, workers int, fn func(ctx context.Context, job *river.Job[riverArgs]) error,
) (*riverRun, error) {
	w := &riverWorker{fn: fn, done: make(chan struct{})}
	w.left.Store(int64(rows))
	bundle := river.NewWorkers()
	river.AddWorker(bundle, w)
	client, err := river.NewClient(riverpgxv5.New(q.pool), &river.Config{
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
		Workers:           bundle,
		FetchCooldown:     time.Millisecond,
		FetchPollInterval: time.Millisecond,
		JobTimeout:        -1,
		Logger:            slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, fmt.Errorf("make a River client: %w", err)
	}
	return &riverRun{q, w, client, rows}, nil
}

// finished waits until every job is done and recorded as such.
func (r *riverRun) finished(ctx context.Context) error {
	select {
	case <-r.worker.done:
	case <-ctx.Done():
		return fmt.Errorf("%w; %d jobs are left", context.Cause(ctx), r.worker.left.Load())
	}
	for {
		n, err := r.count(ctx, "select count(*) from (select from river_job where state = 'running' limit 1) as running")
		if err != nil || n == 0 {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// stop ends the client; of what it does then nothing is measured.
func (r *riverRun) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return r.client.Stop(ctx)
}

// work does the due jobs. completed is how many finished rows the table has then.
func (q *riverQueue) work(
	ctx context.Context, rows, completed, workers int, fn func(ctx context.Context, job *river.Job[riverArgs]) error,
) (part, error) {
	r, err := q.newRun(rows, workers, fn)
	if err != nil {
		return part{}, err
	}
	p, err := timed(rows, func() error {
		if err := r.client.Start(ctx); err != nil {
			return err
		}
		return r.finished(ctx)
	})
	if err = errors.Join(err, r.stop(ctx)); err != nil {
		return p, fmt.Errorf("work with River: %w", err)
	}
	return p, q.expect(ctx, completed, "select count(*) from river_job where state = 'completed'")
}

// workAt inserts jobs for an instant some time ahead and returns how long after the instant they were done. River
// looks for them every 5 s; offset moves the instant within that period.
func (q *riverQueue) workAt(ctx context.Context, rows, workers int, offset time.Duration) (part, error) {
	r, err := q.newRun(rows, workers, nil)
	if err != nil {
		return part{}, err
	}
	if err := r.client.Start(ctx); err != nil {
		return part{}, fmt.Errorf("work with River: %w", err)
	}
	at := clock().Add(4*time.Second + time.Duration(rows)*60*time.Microsecond + offset)
	err = q.add(ctx, rows, at)
	if err == nil && !clock().Before(at) {
		err = errLate
	}
	if err == nil {
		err = r.finished(ctx)
	}
	took := time.Since(at)
	if err = errors.Join(err, r.stop(ctx)); err != nil {
		return part{}, fmt.Errorf("work with River: %w", err)
	}
	return part{rows: rows, took: took}, q.expect(ctx, rows, "select count(*) from river_job where state = 'completed'")
}

func scheduledAt(at time.Time) *river.InsertOpts { return &river.InsertOpts{ScheduledAt: at} }
