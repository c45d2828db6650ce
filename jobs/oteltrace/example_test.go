package oteltrace_test

import (
	"context"
	"log/slog"
	"os"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/prescient-go/prescient/cmd"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/oteltrace"
)

var exporter sdktrace.SpanExporter // such as that of otlptracegrpc

// A binary of a team's own, which sends its last spans before it exits.
func Example() {
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.1))),
	)
	registry := jobs.NewRegistry()
	registry.Register("order.unshipped", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	oteltrace.Use(registry, provider)

	code := cmd.Run(registry)
	if err := provider.Shutdown(context.Background()); err != nil {
		slog.Error("send the last spans", "error", err)
	}
	os.Exit(int(code))
}
