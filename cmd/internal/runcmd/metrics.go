package runcmd

import (
	"cmp"
	"context"
	"errors"

	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/metrics"
)

// forwarding is measured with a forwarder, which sends the events of fn.
func forwarding(ctx context.Context, f *factory.Factory, kind slots.Kind, fn func(b *checks.Bound) error) error {
	return measured(ctx, f, kind, func(b *checks.Bound) error {
		return b.Forward(ctx, f, true, func() error { return fn(b) })
	})
}

// measured is checks.With for a command that cron starts. If metrics.file is set, it writes the
// metrics there when the command ends, also after a failure.
func measured(ctx context.Context, f *factory.Factory, kind slots.Kind, fn func(b *checks.Bound) error) error {
	path := f.Config().Metrics.File
	if path == "" {
		return stoppedBy(ctx, checks.With(ctx, f, nil, fn))
	}
	m := metrics.NewStore(f.Store().Name)
	err := stoppedBy(ctx, checks.With(ctx, f, m, func(b *checks.Bound) error {
		b.Watch(f)
		defer m.Read(context.WithoutCancel(ctx))
		return fn(b)
	}))
	var found error
	if exit.CodeOf(err) == exit.Left {
		err, found = nil, err // it did what it could
	}
	m.Ended(kind, err)
	return cmp.Or(errors.Join(err, f.Pools().Write(func() error { return m.WriteFile(path, f.Stores()...) })), found)
}
