package jobs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
)

// Kind is a job whose payload is a T. The code that enqueues its checks and the code that does them
// share one value, so the compiler checks that both use the same type:
//
//	var Unshipped = jobs.Kind[Order]{Name: "order.unshipped"}
//
// It is safe for concurrent use.
type Kind[T any] struct {
	// Name is the job_exec.
	Name string
	// Version is the version of T. From 2 on, payloads must be JSON objects and have the version as
	// "payload_version" beside their own fields. A payload without it has version 1. Default 1.
	Version int
	// Upgrade converts a payload of an earlier version to a T. Default: it is decoded unchanged.
	Upgrade func(version int, payload json.RawMessage) (T, error)
}

// Enqueue enqueues one check of the kind, as Client.Enqueue does. job names the entity and the
// instant.
func (k Kind[T]) Enqueue(
	ctx context.Context, c *Client, db DB, job FutureJob, payload T, on ...OnConflict,
) (EnqueueResult, error) {
	job, err := k.Job(job, payload)
	if err != nil {
		return EnqueueResult{}, fmt.Errorf("enqueue %s: %w", job.Key(), err)
	}
	return c.Enqueue(ctx, db, job, on...)
}

// Job returns a job as one of the kind, for EnqueueMany and EnqueueAll.
func (k Kind[T]) Job(job FutureJob, payload T) (FutureJob, error) {
	var err error
	job.JobExec = k.Name
	job.Payload, err = k.Encode(payload)
	return job, err
}

// Encode returns a payload in its stored form, for Result.Payload.
func (k Kind[T]) Encode(payload T) (json.RawMessage, error) {
	text, err := json.Marshal(payload)
	if err == nil && k.Version > 1 {
		var fields map[string]json.RawMessage
		if err = json.Unmarshal(text, &fields); err == nil && fields != nil {
			fields[versionField] = json.RawMessage(fmt.Sprint(k.Version))
			return json.Marshal(fields)
		}
		err = fmt.Errorf("a %T with a version must be a JSON object", payload)
	}
	if err != nil {
		return nil, fmt.Errorf("encode payload of %s: %w", k.Name, err)
	}
	return text, nil
}

const versionField = "payload_version"

// Payload decodes the payload of a job, of this version or an earlier one. A later version is an
// error. A job without a payload returns a zero T.
func (k Kind[T]) Payload(job FutureJob) (payload T, err error) {
	if len(job.Payload) == 0 {
		return payload, nil
	}
	own := cmp.Or(k.Version, 1)
	switch version := versionOf(job.Payload); {
	case version > own:
		err = fmt.Errorf("its version is %d and this binary knows version %d: run a newer binary", version, own)
	case version < own && k.Upgrade != nil:
		payload, err = k.Upgrade(version, job.Payload)
	default:
		err = json.Unmarshal(job.Payload, &payload)
	}
	if err != nil {
		return payload, fmt.Errorf("decode payload of %s: %w", job.Key(), err)
	}
	return payload, nil
}

func versionOf(payload json.RawMessage) int {
	var stamp struct {
		Version int `json:"payload_version"`
	}
	_ = json.Unmarshal(payload, &stamp) // anything but an object has none
	return cmp.Or(stamp.Version, 1)
}

// Register adds the job to a registry, as Registry.Register does. If fn returns a next time, the
// next check gets the payload as fn has changed it. If fn returns an error, its changes are
// dropped.
func (k Kind[T]) Register(
	r *Registry, fn func(ctx context.Context, job FutureJob, payload *T) (next *time.Time, err error), opts ...Option,
) {
	var h handler
	if fn != nil {
		h.one = k.call(func(ctx context.Context, _ *sqlx.Tx, job FutureJob, payload *T) (*time.Time, error) {
			return fn(ctx, job, payload)
		})
	}
	r.add(&Definition{Name: k.Name}, h, opts)
}

// RegisterTx is Register for a job that writes through a transaction, as Registry.RegisterTx does.
func (k Kind[T]) RegisterTx(
	r *Registry, fn func(ctx context.Context, tx *sqlx.Tx, job FutureJob, payload *T) (next *time.Time, err error),
	opts ...Option,
) {
	var h handler
	if fn != nil {
		h.one, h.inTx = k.call(fn), true
	}
	r.add(&Definition{Name: k.Name}, h, opts)
}

// call gives a function its payload, and records its changes to it.
func (k Kind[T]) call(
	fn func(ctx context.Context, tx *sqlx.Tx, job FutureJob, payload *T) (*time.Time, error),
) func(ctx context.Context, tx *sqlx.Tx, job FutureJob) (Result, error) {
	return func(ctx context.Context, tx *sqlx.Tx, job FutureJob) (Result, error) {
		payload, err := k.Payload(job)
		if err != nil {
			return Result{}, err
		}
		before, err := json.Marshal(payload)
		if err != nil {
			return Result{}, fmt.Errorf("encode payload of %s: %w", k.Name, err)
		}
		next, err := fn(ctx, tx, job, &payload)
		if err != nil || next == nil {
			return Result{}, err
		}
		if after, err := json.Marshal(payload); err == nil && bytes.Equal(before, after) {
			return Result{Next: next}, nil
		}
		changed, err := k.Encode(payload)
		return Result{Next: next, Payload: changed}, err
	}
}
