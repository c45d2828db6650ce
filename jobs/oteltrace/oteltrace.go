package oteltrace

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs"
)

// scope names this package to OpenTelemetry.
const scope = "github.com/prescient-go/prescient/jobs/oteltrace"

// Use makes the runs of a registry, and the calls of its jobs, record spans with a provider. nil is
// the global provider. Call it once, before the first run, like jobs.Registry.Use. Middleware from
// an earlier Use is outside the span of a check.
func Use(registry *jobs.Registry, provider trace.TracerProvider) {
	t := tracer{cmp.Or(provider, otel.GetTracerProvider()).Tracer(scope)}
	registry.Trace(reserved.Caller{}, t.start)
	registry.Use(t.check)
}

// Carry links the rest of a transaction to the span of ctx: the checks that it enqueues link to
// that span. Without a span in ctx it does nothing.
func Carry(ctx context.Context, tx jobs.Tx) error {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return jobs.SetTraceParent(ctx, tx, carrier.Get("traceparent"))
}

type tracer struct{ trace.Tracer }

// start is the parameter of jobs.Registry.Trace.
func (t tracer) start(
	ctx context.Context, name string, attrs ...slog.Attr,
) (context.Context, func(err error, attrs ...slog.Attr)) {
	ctx, span := t.Start(ctx, "prescient "+name, trace.WithAttributes(attributes(attrs)...))
	return ctx, func(err error, attrs ...slog.Attr) {
		span.SetAttributes(attributes(attrs)...)
		end(span, err)
	}
}

// errGone is the error of a check that did not return.
var errGone = errors.New("the check did not return: it panicked, or called runtime.Goexit")

// check is a jobs.Middleware.
func (t tracer) check(
	ctx context.Context, call jobs.Call, next func(context.Context) ([]jobs.Result, error),
) (results []jobs.Result, err error) {
	ctx, span := t.Start(ctx, "prescient check "+call.JobExec, trace.WithAttributes(attributes(describe(call))...),
		trace.WithLinks(enqueuers(ctx, call.Rows)...))
	err = errGone // unless next returns
	defer func() { end(span, err) }()
	results, err = next(ctx)
	if err == nil {
		t.countErrors(span, results)
	}
	return results, err
}

// maxLinks bounds the links of the check of a batch. It is OpenTelemetry's own limit.
const maxLinks = 128

// enqueuers links to what enqueued the rows, each trace once.
func enqueuers(ctx context.Context, rows []jobs.FutureJob) []trace.Link {
	var links []trace.Link
	seen := map[string]bool{"": true}
	for i := range rows {
		parent := rows[i].TraceParent
		if seen[parent] || len(links) == maxLinks {
			continue
		}
		seen[parent] = true
		enqueued := propagation.TraceContext{}.Extract(context.WithoutCancel(ctx),
			propagation.MapCarrier{"traceparent": parent})
		if span := trace.SpanContextFromContext(enqueued); span.IsRemote() {
			links = append(links, trace.Link{SpanContext: span})
		}
	}
	return links
}

// countErrors gives the span of a batch the errors of its rows.
func (t tracer) countErrors(span trace.Span, results []jobs.Result) {
	var first error
	failed := 0
	for _, result := range results {
		if result.Err != nil {
			first = cmp.Or(first, result.Err)
			failed++
		}
	}
	if failed > 0 {
		span.SetAttributes(attribute.Int("prescient.failed", failed))
		span.RecordError(first)
		span.SetStatus(codes.Error, first.Error())
	}
}

// describe returns the attributes of a call.
func describe(call jobs.Call) []slog.Attr {
	first := call.Rows[0]
	attrs := []slog.Attr{
		slog.String("job_exec", call.JobExec), slog.Int("rows", len(call.Rows)),
		slog.Time("slot", first.Slot), slog.Duration("lateness", first.Lateness),
		slog.Bool("caught_up", first.CaughtUp),
	}
	if call.Group != "" {
		attrs = append(attrs, slog.String("group", call.Group))
	}
	if len(call.Rows) == 1 {
		attrs = append(attrs, slog.String("entity_name", first.EntityName), slog.String("entity_key", first.EntityKey),
			slog.Int("check_count", first.CheckCount), slog.Int("error_count", first.ErrorCount))
	}
	return attrs
}

func end(span trace.Span, err error) {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// attributes returns the attributes of a log record for OpenTelemetry: durations in seconds,
// instants as text in UTC.
func attributes(attrs []slog.Attr) []attribute.KeyValue {
	list := make([]attribute.KeyValue, len(attrs))
	for i, attr := range attrs {
		key := attribute.Key("prescient." + attr.Key)
		switch v := attr.Value; v.Kind() {
		case slog.KindInt64:
			list[i] = key.Int64(v.Int64())
		case slog.KindBool:
			list[i] = key.Bool(v.Bool())
		case slog.KindDuration:
			list[i] = key.Float64(v.Duration().Seconds())
		case slog.KindTime:
			list[i] = key.String(v.Time().UTC().Format(time.RFC3339))
		default:
			if names, ok := v.Any().([]string); ok {
				list[i] = key.StringSlice(names)
			} else {
				list[i] = key.String(v.String())
			}
		}
	}
	return list
}
