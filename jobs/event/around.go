package event

import (
	"context"

	"github.com/jmoiron/sqlx"
)

// Wrap returns a publisher that publishes through p, inside fn: to count events, or to trace
// them. fn gets what is to be published, calls publish once with ctx or one made of it, and returns
// its error. It is called by several goroutines at once. The publisher is a TxPublisher if p is
// one: then an event that was published without an error may still be rolled back.
func Wrap(
	p Publisher, fn func(ctx context.Context, events []Event, publish func(ctx context.Context) error) error,
) Publisher {
	a := around{p, fn}
	if tx, ok := p.(TxPublisher); ok {
		return aroundTx{a, tx}
	}
	return a
}

type around struct {
	Publisher
	fn func(ctx context.Context, events []Event, publish func(ctx context.Context) error) error
}

// Publish publishes events inside the function.
func (a around) Publish(ctx context.Context, events []Event) error {
	return a.fn(ctx, events, func(ctx context.Context) error { return a.Publisher.Publish(ctx, events) })
}

type aroundTx struct {
	around
	tx TxPublisher
}

// PublishTx publishes events inside the function, in a transaction.
func (a aroundTx) PublishTx(ctx context.Context, tx *sqlx.Tx, events []Event) error {
	return a.fn(ctx, events, func(ctx context.Context) error { return a.tx.PublishTx(ctx, tx, events) })
}
