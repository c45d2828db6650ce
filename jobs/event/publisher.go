package event

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prescient-go/prescient/jobs"
)

// Publisher sends events. It is safe for concurrent use.
type Publisher interface {
	// Publish sends a batch, in order for each Subject, and returns when the result of every event
	// is known. It returns nil if all are safe with the receiver, a *PartialError with the error of
	// each, or any other error if none is known to be safe.
	//
	// Once an event of a Subject has failed, Publish sends no later event of that Subject in the
	// batch. Their error is ErrBlocked.
	Publish(ctx context.Context, events []Event) error
	// Close gives back what the publisher holds. Nothing that Publish returned nil for is lost.
	Close() error
}

// TxPublisher writes events within a transaction: they exist if and only if it commits. It calls no network.
// An event without Source gets that of the store.
// It is safe for concurrent use.
type TxPublisher interface {
	PublishTx(ctx context.Context, tx jobs.Tx, events []Event) error
}

// ErrRefused is matched by the error of an event that its receiver refuses for what is in it: it would refuse the
// event again, and accepts others.
var ErrRefused = errors.New("refused")

// ErrBlocked is the error of an event that was not sent since an earlier one of its Subject failed.
var ErrBlocked = fmt.Errorf("%w: an earlier event of the subject failed", ErrNotSent)

// ErrNotSent is matched by the error of an event that was not sent, because of other events, or
// because the configuration forbids it. The receiver has not refused it.
var ErrNotSent = errors.New("not sent")

// ErrThrottled is the error of an event that was not sent because its receiver gets no more for now. This is no
// failure of the receiver.
var ErrThrottled = fmt.Errorf("%w: the receiver gets no more for now", ErrNotSent)

// PartialError tells what became of each event of a batch.
type PartialError struct {
	// Errs has one entry for each event of the batch, in order: nil for one that was published.
	Errs []error
}

// Partial makes what Publish returns of what became of each event of its batch: nil when no entry is an error, else a
// *PartialError with errs.
func Partial(errs []error) error {
	if e := (&PartialError{Errs: errs}); len(e.Unwrap()) > 0 {
		return e
	}
	return nil
}

// Error names the number of events that failed, and the first error.
func (e *PartialError) Error() string {
	failed := e.Unwrap()
	if len(failed) == 0 {
		return "no event failed"
	}
	return fmt.Sprintf("%d of %d events were not published; the first error: %v", len(failed), len(e.Errs), failed[0])
}

// Unwrap returns the errors of the events that failed.
func (e *PartialError) Unwrap() []error {
	return slices.DeleteFunc(slices.Clone(e.Errs), func(err error) bool { return err == nil })
}

// BySubject returns the indices of the events of each subject, in their order; the subjects in that
// of their first event. An event without a subject is in no order, so it is by itself.
func BySubject(events []Event) [][]int {
	var chains [][]int
	of := map[string]int{} // subject to its place in chains
	for i, e := range events {
		n, known := of[e.Subject]
		if !known || e.Subject == "" {
			n = len(chains)
			of[e.Subject] = n
			chains = append(chains, nil)
		}
		chains[n] = append(chains[n], i)
	}
	return chains
}

// InOrder sends the events of a chain, given by their indices, up to the first that fails. errs
// gets the error of each.
func InOrder(chain []int, errs []error, send func(i int) error) {
	for n, i := range chain {
		if errs[i] = send(i); errs[i] != nil {
			Blocked(chain[n+1:], errs)
			return
		}
	}
}

// Blocked notes that events were not sent since one before them failed.
func Blocked(chain []int, errs []error) {
	for _, i := range chain {
		errs[i] = ErrBlocked
	}
}

// Errors spreads what Publish returned over the n events of its batch: nil for each one that was
// published.
func Errors(err error, n int) []error {
	if partial, ok := errors.AsType[*PartialError](err); ok && len(partial.Errs) == n {
		return partial.Errs
	}
	return slices.Repeat([]error{err}, n)
}
