package delayq

import (
	"context"
	"errors"
	"time"
)

// Queue is a delay queue of two methods, as many programs have it.
var _ interface {
	Delay(ready time.Time, data []byte) error
	Run(handle func(t time.Time, data []byte) error) error
} = (*Queue)(nil)

// ErrClosed is returned for an item that is given to a queue after Close.
var ErrClosed = errors.New("the queue is closed")

// Delay is DelayContext in a transaction of its own.
func (q *Queue) Delay(ready time.Time, data []byte) error {
	if q.open.Err() != nil {
		return ErrClosed
	}
	return q.DelayContext(q.open, q.db, ready, data)
}

// Run is RunContext until Close. handle gets the instant given to Delay, not that of the slot, and the data.
func (q *Queue) Run(handle func(t time.Time, data []byte) error) error {
	return q.RunContext(q.open, func(_ context.Context, item Item) error { return handle(item.At, item.Data) })
}

// Close ends Run, which lets running calls of handle finish first and then returns nil; from then on Delay returns ErrClosed. It
// does not wait for them, nor does it close the database. It may be called more than once.
func (q *Queue) Close() { q.close() }
