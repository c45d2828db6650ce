package jobs

import (
	"context"
	"log/slog"
)

// StartSpan begins a span of a trace: the work of a run that is not a call of a job's function, which Middleware sees. It
// returns the context of what is done within, which carries what ctx does, and the function that ends the span, with the
// error of the work, if any, and what came of it. It is called by several goroutines at once.
//
// The spans are "run", of a slot by one runner; "claim", of the rows it holds while it reads, checks and records
// them; and "publish", of events. Calls of functions are within their claim, and what they publish is within them.
type StartSpan func(ctx context.Context, name string, attrs ...slog.Attr) (context.Context, func(err error, attrs ...slog.Attr))

// Trace has runs of the registry begin their spans with start; package jobs/oteltrace has one for OpenTelemetry. Like
// Register it is not for a registry that a run reads.
func (r *Registry) Trace(start StartSpan) { r.start = start }

// StartSpan begins a span, if Trace was called: it is for those who do such work.
func (r *Registry) StartSpan(ctx context.Context, name string, attrs ...slog.Attr) (context.Context, func(err error, attrs ...slog.Attr)) {
	if r.start == nil {
		return ctx, func(error, ...slog.Attr) {}
	}
	return r.start(ctx, name, attrs...)
}
