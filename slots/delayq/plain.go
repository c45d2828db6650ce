package delayq

import (
	"context"
	"errors"
	"time"

	"github.com/prescient-go/prescient/jobs"
)

// DelayQ is the smallest interface of a delay queue. A Queue implements it.
type DelayQ interface {
	// Delay puts data into the queue, to be ready at an instant.
	Delay(readyTime time.Time, data []byte) error
	// Run calls handle for each item that is ready.
	Run(handle HandlerFn) error
}

// HandlerFn is called for each item that is ready, with the instant that was given to Delay.
type HandlerFn = func(t time.Time, data []byte) error

var _ DelayQ = (*Queue)(nil)

// ErrClosed is returned by Delay after Close.
var ErrClosed = errors.New("the queue is closed")

// Delay is DelayContext in a transaction of its own.
func (q *Queue) Delay(readyTime time.Time, data []byte) error {
	if q.open.Err() != nil {
		return ErrClosed
	}
	return q.DelayContext(q.open, jobs.OwnTx(q.db), readyTime, data)
}

// Run is RunContext until Close.
func (q *Queue) Run(handle HandlerFn) error {
	if handle == nil {
		return q.RunContext(q.open, nil)
	}
	return q.RunContext(q.open, func(_ context.Context, item Item) error { return handle(item.At, item.Data) })
}

// Close ends Run, which lets running calls of handle finish first and then returns nil. From then
// on Delay returns ErrClosed. Close waits for no call, and leaves the database open. Idempotent.
func (q *Queue) Close() { q.close() }
