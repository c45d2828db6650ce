package event

import (
	"context"

	"github.com/prescient-go/prescient/jobs"
)

// Around is called by Wrap and WrapTx with the events that are to be published. It calls publish once, with ctx or one
// made of it, and returns its error. It is called by several goroutines at once.
type Around func(ctx context.Context, events []Event, publish func(ctx context.Context) error) error

// Wrap returns a publisher that publishes through p, inside fn: to count events, or to trace them.
func Wrap(p Publisher, fn Around) Publisher { return around{p, fn} }

type around struct {
	Publisher
	fn Around
}

// Publish publishes events inside the function.
func (a around) Publish(ctx context.Context, events []Event) error {
	return a.fn(ctx, events, func(ctx context.Context) error { return a.Publisher.Publish(ctx, events) })
}

// WrapTx is Wrap for a TxPublisher. An event that was published without an error may still be rolled back.
func WrapTx(p TxPublisher, fn Around) TxPublisher { return aroundTx{p, fn} }

type aroundTx struct {
	p  TxPublisher
	fn Around
}

// PublishTx publishes events inside the function, in a transaction.
func (a aroundTx) PublishTx(ctx context.Context, tx jobs.Tx, events []Event) error {
	return a.fn(ctx, events, func(ctx context.Context) error { return a.p.PublishTx(ctx, tx, events) })
}
