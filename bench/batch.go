package main

import (
	"context"
	"time"

	"github.com/prescient-go/prescient/jobs"
)

// registerBatch returns a registry with one job that takes a page of rows at once.
func registerBatch(fn jobs.BatchFunc, opts ...jobs.Option) *jobs.Registry {
	r := jobs.NewRegistry()
	r.Register(jobName, jobs.Batch(fn), opts...)
	return r
}

// registerBatchTx is registerBatch for a job that writes through a transaction.
func registerBatchTx(fn jobs.TxBatchFunc, opts ...jobs.Option) *jobs.Registry {
	r := jobs.NewRegistry()
	r.Register(jobName, jobs.BatchInTx(fn), opts...)
	return r
}

// finishBatch is a batch that has nothing to do and is done.
func finishBatch(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
	return make([]jobs.Result, len(batch)), nil
}

// inBatches makes a batch function of a decision about one row.
func inBatches(decide func(job jobs.FutureJob) *time.Time) jobs.BatchFunc {
	return func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		results := make([]jobs.Result, len(batch))
		for i, job := range batch {
			results[i].Next = decide(job)
		}
		return results, nil
	}
}
