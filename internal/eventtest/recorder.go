package eventtest

import (
	"context"
	"slices"
	"sync"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
)

// Recorder is a publisher that keeps what it gets.
type Recorder struct {
	// Refuse returns the error of an event that is not kept. Nil keeps all events.
	Refuse func(event.Event) error

	mu     sync.Mutex
	events []event.Event
	most   int
}

// Publish keeps the events that Refuse does not refuse.
func (r *Recorder) Publish(_ context.Context, events []event.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	errs := make([]error, len(events))
	size := 0
	for i, e := range events {
		size += len(e.Data)
		if r.Refuse != nil {
			errs[i] = r.Refuse(e)
		}
		if errs[i] == nil {
			r.events = append(r.events, e)
		}
	}
	r.most = max(r.most, size)
	return event.Partial(errs)
}

// PublishTx keeps the events unless Refuse refuses one, whose error it returns. It keeps them also if the transaction
// is rolled back.
func (r *Recorder) PublishTx(ctx context.Context, _ jobs.Tx, events []event.Event) error {
	for _, e := range events {
		if r.Refuse != nil {
			if err := r.Refuse(e); err != nil {
				return err
			}
		}
	}
	return r.Publish(ctx, events)
}

// Close does nothing.
func (r *Recorder) Close() error { return nil }

// Events returns what was kept, in the order of publishing.
func (r *Recorder) Events() []event.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Most returns the bytes of data of the largest batch.
func (r *Recorder) Most() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most
}
