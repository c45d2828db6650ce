package delayq

import (
	"context"
	"errors"
	"time"
)

// DelayQ is a delay queue in the fewest words; a Queue is one.
type DelayQ interface {
	// Delay puts data into the queue, to be ready at an instant.
	Delay(readyTime time.Time, data []byte) error
	// Run hands out what is ready.
	Run(handle HandlerFn) error
}

// HandlerFn is called for what is ready, with the instant that was given to Delay.
type HandlerFn = func(t time.Time, data []byte) error

var _ DelayQ = (*Queue)(nil)

// ErrClosed is returned for an item that is given to a queue after Close.
var ErrClosed = errors.New("the queue is closed")

// Delay is DelayContext in a transaction of its own.
func (q *Queue) Delay(readyTime time.Time, data []byte) error {
	if q.open.Err() != nil {
		return ErrClosed
	}
	return q.DelayContext(q.open, q.db, readyTime, data)
}

// Run is RunContext until Close.
func (q *Queue) Run(handle HandlerFn) error {
	if handle == nil {
		return q.RunContext(q.open, nil)
	}
	return q.RunContext(q.open, func(_ context.Context, item Item) error { return handle(item.At, item.Data) })
}

// Close ends Run, which lets running calls of handle finish first and then returns nil; from then on Delay returns ErrClosed. It
// does not wait for them, nor does it close the database. It may be called more than once.
func (q *Queue) Close() { q.close() }
