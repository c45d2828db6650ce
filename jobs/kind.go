package jobs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/jmoiron/sqlx"
)

// Kind is a job whose payload is a T. The code that enqueues its checks and the code that does them
// share one value, so the compiler checks that both use the same type:
//
//	var Unshipped = jobs.Kind[Order]{Name: "order.unshipped"}
//
// It is safe for concurrent use.
type Kind[T any] struct {
	// Name is the job_exec. It must be set.
	Name string
	// Version is the version of T. From 2 on, payloads must be JSON objects and have the version as
	// "payload_version" beside their own fields. A payload without it has version 1. Default 1.
	Version int
	// Upgrade converts a payload of an earlier version to a T. Default: it is decoded unchanged.
	Upgrade func(version int, payload json.RawMessage) (T, error)
}

// Enqueue enqueues one check of the kind, as Client.Enqueue does. The request names the entity and
// the instant.
func (k Kind[T]) Enqueue(
	ctx context.Context, c *Client, tx Tx, request Request, payload T, on ...OnConflict,
) (EnqueueResult, error) {
	request, err := k.Request(request, payload)
	if err != nil {
		return EnqueueResult{}, fmt.Errorf("enqueue %s: %w", request.Key(), err)
	}
	return c.Enqueue(ctx, tx, request, on...)
}

// Request returns a request with the name and the payload of the kind, for EnqueueMany and
// EnqueueAll. A request that has a payload, or the name of another job, is an error.
func (k Kind[T]) Request(request Request, payload T) (Request, error) {
	var err error
	if request.JobExec != "" && request.JobExec != k.Name {
		return request, &FieldError{"job_exec", fmt.Sprintf("must be empty or %q, the name of the kind", k.Name)}
	}
	if request.Payload != nil {
		return request, &FieldError{"payload", "must be nil: the payload of a kind is the argument"}
	}
	request.JobExec = k.Name
	request.Payload, err = k.Encode(payload)
	return request, err
}

// Key returns the natural key of a check of the kind, such as for Client.Cancel or Client.Reschedule.
func (k Kind[T]) Key(entityName, entityKey string) Key {
	return Key{JobExec: k.Name, EntityName: entityName, EntityKey: entityKey}
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

// Job is a row whose payload is a T, for the functions of a Kind.
type Job[T any] struct {
	FutureJob
	// Data is the payload, decoded. Zero if the row has no payload. If a check returns a next time,
	// the next check gets the payload as the function has changed it. If it returns an error, the
	// changes are dropped.
	Data T

	before []byte // Data as JSON before the call
}

// Register adds the job to a registry, in any of the shapes:
//
//	func check(ctx context.Context, tx *sqlx.Tx, job *jobs.Job[Order]) (*time.Time, error) // job.Data is an Order
//
//	Unshipped.Register(registry, jobs.InTx(check))
//
// A row whose payload cannot be decoded gets an error, and the other rows of a batch are checked.
// Register panics like Registry.Register.
func (k Kind[T]) Register(r *Registry, h Handler[*Job[T]], opts ...Option) {
	own := handler{inTx: h.inTx, each: h.each, size: h.size, family: h.family, bad: h.bad}
	if h.family != nil {
		h.family.kinds.Store(k.Name, k)
	}
	if h.one != nil {
		own.one = func(ctx context.Context, tx *sqlx.Tx, row FutureJob) (Result, error) {
			job, err := k.open(row)
			if err != nil {
				return Result{}, err
			}
			result, err := h.one(ctx, tx, job)
			if err != nil {
				return Result{}, err
			}
			return k.close(job, result), nil
		}
	}
	if h.many != nil {
		own.many = func(ctx context.Context, tx *sqlx.Tx, rows []FutureJob) ([]Result, error) {
			return callMany(ctx, tx, rows, k.of(h.family), h.many)
		}
	}
	r.add(&Definition{Name: k.Name}, own, opts)
}

// of returns the kind of each row of a call: that of the job or, in a family, that of the row.
func (k Kind[T]) of(f *family) func(row *FutureJob) Kind[T] {
	return func(row *FutureJob) Kind[T] {
		if f != nil {
			if own, ok := f.kinds.Load(row.JobExec); ok {
				return own.(Kind[T]) //nolint:forcetypeassert // the function of a family takes jobs of one type
			}
		}
		return k
	}
}

func callMany[T any](
	ctx context.Context, tx *sqlx.Tx, rows []FutureJob, of func(row *FutureJob) Kind[T],
	fn func(ctx context.Context, tx *sqlx.Tx, batch []*Job[T]) ([]Result, error),
) ([]Result, error) {
	all := make([]Result, len(rows))
	var batch []*Job[T]
	var places []int
	for i, row := range rows {
		job, err := of(&row).open(row)
		if all[i].Err = err; err == nil {
			batch, places = append(batch, job), append(places, i)
		}
	}
	if len(batch) == 0 {
		return all, nil
	}
	results, err := fn(ctx, tx, batch)
	if err == nil && len(results) != len(batch) {
		err = wrongCount(len(results), len(batch))
	}
	if err != nil {
		return nil, err
	}
	for i, result := range results {
		all[places[i]] = of(&rows[places[i]]).close(batch[i], result)
	}
	return all, nil
}

// open decodes the payload of a row.
func (k Kind[T]) open(row FutureJob) (*Job[T], error) {
	data, err := k.Payload(row)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("encode payload of %s: %w", k.Name, err)
	}
	return &Job[T]{FutureJob: row, Data: data, before: before}, nil
}

// close adds the changes of a function to the result of a row.
func (k Kind[T]) close(job *Job[T], result Result) Result {
	if result.Err != nil || result.Next == nil || result.Payload != nil {
		return result
	}
	if after, err := json.Marshal(job.Data); err == nil && bytes.Equal(job.before, after) {
		return result
	}
	if result.Payload, result.Err = k.Encode(job.Data); result.Err != nil {
		return Result{Err: result.Err}
	}
	return result
}
