package oteltrace_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/oteltrace"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

var noon = time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)

// spans returns the spans of a run of a registry's jobs at noon, with n rows of each job.
func spans(t *testing.T, registry *jobs.Registry, rows int) (tracetest.SpanStubs, slots.Result) {
	t.Helper()
	db := pgtest.New(t)
	client, err := jobs.NewClient(t.Context(), db, jobs.Config{Now: func() time.Time { return noon.Add(-time.Hour) }})
	if err != nil {
		t.Fatal(err)
	}
	for d := range registry.All() {
		for i := range rows {
			check := jobs.Request{JobExec: d.Name, EntityName: "order", EntityKey: fmt.Sprint(i)}
			check.CheckAt = noon
			if _, err := client.Enqueue(t.Context(), jobs.OwnTx(db), check); err != nil {
				t.Fatal(err)
			}
		}
	}
	return run(t, db, registry)
}

// run runs noon, and returns the spans of that.
func run(t *testing.T, db *sqlx.DB, registry *jobs.Registry) (tracetest.SpanStubs, slots.Result) {
	t.Helper()
	recorder := tracetest.NewInMemoryExporter()
	oteltrace.Use(registry, sdktrace.NewTracerProvider(sdktrace.WithSyncer(recorder)))
	runner, err := slots.NewRunner(t.Context(), slots.Config{
		DB: db, Registry: registry, Now: func() time.Time { return noon.Add(2 * time.Second) }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	result, err := runner.Run(t.Context(), noon)
	if err != nil {
		t.Fatal(err)
	}
	return recorder.GetSpans(), result
}

// paths are the names of spans from the root on, in order.
func paths(list tracetest.SpanStubs) (paths []string) {
	byID := map[trace.SpanID]tracetest.SpanStub{}
	for _, s := range list {
		byID[s.SpanContext.SpanID()] = s
	}
	for _, s := range list {
		path := s.Name
		for up, ok := byID[s.Parent.SpanID()]; ok; up, ok = byID[up.Parent.SpanID()] {
			path = up.Name + " > " + path
		}
		paths = append(paths, strings.ReplaceAll(path, "prescient ", ""))
	}
	slices.Sort(paths)
	return paths
}

func named(t *testing.T, list tracetest.SpanStubs, name string) tracetest.SpanStub {
	t.Helper()
	i := slices.IndexFunc(list, func(s tracetest.SpanStub) bool { return s.Name == "prescient "+name })
	if i < 0 {
		t.Fatalf("no span %q", name)
	}
	return list[i]
}

func attributes(s tracetest.SpanStub, names ...string) map[string]any {
	found := map[string]any{}
	for _, kv := range s.Attributes {
		if slices.Contains(names, string(kv.Key)) {
			found[string(kv.Key)] = kv.Value.AsInterface()
		}
	}
	return found
}

func TestARunHasASpanForItselfItsClaimsAndItsChecks(t *testing.T) {
	t.Parallel()
	registry := jobs.NewRegistry()
	errStock := errors.New("the warehouse does not answer")
	tracer := sdktrace.NewTracerProvider().Tracer("test")
	registry.Register("one", jobs.Row(func(ctx context.Context, job jobs.FutureJob) (*time.Time, error) {
		if !trace.SpanContextFromContext(ctx).IsValid() {
			t.Error("the function has no span to go on with")
		}
		_, span := tracer.Start(ctx, "query") // as a client of something else does
		defer span.End()
		if job.EntityKey == "1" {
			return nil, errStock
		}
		return nil, nil
	}))
	registry.Register("batch", jobs.BatchInTx(func(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		results := make([]jobs.Result, len(batch))
		results[1].Err = errStock
		return results, nil
	}))
	list, result := spans(t, registry, 2)
	if result.Finished != 2 || result.Failed != 2 {
		t.Errorf("%+v", result)
	}
	want := []string{"run", "run > claim", "run > claim", "run > claim > check batch", "run > claim > check one", "run > claim > check one"}
	if diff := cmp.Diff(want, paths(list)); diff != "" {
		t.Error(diff)
	}
	run := named(t, list, "run")
	if run.Status.Code != codes.Unset || run.EndTime.Before(run.StartTime) {
		t.Errorf("%+v", run.Status)
	}
	diff := cmp.Diff(map[string]any{
		"prescient.slot": "2030-03-01T12:00:00Z", "prescient.kind": "run", "prescient.state": "done",
		"prescient.planned": int64(4), "prescient.finished": int64(2), "prescient.failed": int64(2),
	}, attributes(run, "prescient.slot", "prescient.kind", "prescient.state", "prescient.planned", "prescient.finished", "prescient.failed"))
	if diff != "" {
		t.Error(diff)
	}
	batch := named(t, list, "check batch")
	diff = cmp.Diff(map[string]any{"prescient.rows": int64(2), "prescient.failed": int64(1), "prescient.lateness": 2.0},
		attributes(batch, "prescient.rows", "prescient.failed", "prescient.lateness", "prescient.entity_key"))
	if diff != "" || batch.Status.Code != codes.Error || batch.Status.Description != errStock.Error() {
		t.Error(diff, batch.Status)
	}
	failed := 0
	for _, s := range list {
		key := attributes(s, "prescient.entity_key")["prescient.entity_key"]
		if s.Name == "prescient check one" && (s.Status.Code == codes.Error) != (key == "1") {
			t.Errorf("%v: %+v", key, s.Status)
		} else if s.Name == "prescient check one" && key == "1" {
			failed++
		}
	}
	if failed != 1 {
		t.Errorf("%d spans of the check that failed", failed)
	}
	var jobsOfClaims []string
	for _, s := range list {
		if names, ok := attributes(s, "prescient.jobs")["prescient.jobs"].([]string); ok {
			jobsOfClaims = append(jobsOfClaims, names...)
		}
	}
	if slices.Sort(jobsOfClaims); !slices.Equal(jobsOfClaims, []string{"batch", "one"}) {
		t.Errorf("the claims are of %q", jobsOfClaims)
	}
}

// However they are enqueued: the trace travels in the row, and in no row of another transaction.
func TestChecksAreLinkedToTheTraceThatEnqueuedThem(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	client, err := jobs.NewClient(t.Context(), db, jobs.Config{Now: func() time.Time { return noon.Add(-time.Hour) }})
	if err != nil {
		t.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider()
	check := func(key string) jobs.Request {
		check := jobs.Request{JobExec: "batch", EntityName: "order", EntityKey: key}
		check.CheckAt = noon
		return check
	}
	one := func(tx *sqlx.Tx, key string) error {
		_, err := client.Enqueue(t.Context(), tx, check(key))
		return err
	}
	ways := map[string]func(tx *sqlx.Tx, key string) error{
		"one": one,
		"many": func(tx *sqlx.Tx, key string) error {
			_, err := client.EnqueueMany(t.Context(), tx, []jobs.Request{check(key), check(key + "'")})
			return err
		},
		"all": func(tx *sqlx.Tx, key string) error {
			_, err := client.EnqueueAll(t.Context(), tx, slices.Values([]jobs.Request{check(key)}))
			return err
		},
	}
	want := map[trace.SpanID]bool{}
	db.SetMaxOpenConns(1) // the setting of a transaction must not outlive it
	for name, way := range ways {
		ctx, span := provider.Tracer("shop").Start(t.Context(), name)
		err := pgsql.InTx(ctx, db, func(tx *sqlx.Tx) error {
			return errors.Join(oteltrace.Carry(ctx, tx), way(tx, name))
		})
		if err != nil {
			t.Fatal(err)
		}
		want[span.SpanContext().SpanID()] = true
		if err := pgsql.InTx(ctx, db, func(tx *sqlx.Tx) error { return one(tx, "no trace "+name) }); err != nil {
			t.Fatal(err)
		}
	}
	db.SetMaxOpenConns(0)

	registry := jobs.NewRegistry()
	registry.Register("batch", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		for _, job := range batch {
			if traced := !strings.HasPrefix(job.EntityKey, "no trace"); traced != (job.TraceParent != "") {
				t.Errorf("row %s: traceparent %q", job.EntityKey, job.TraceParent)
			}
		}
		return make([]jobs.Result, len(batch)), nil
	}))
	list, result := run(t, db, registry)
	if result.Finished != 7 {
		t.Errorf("%+v", result)
	}
	got := map[trace.SpanID]bool{}
	links := named(t, list, "check batch").Links
	for _, link := range links {
		got[link.SpanContext.SpanID()] = true
	}
	if diff := cmp.Diff(want, got); diff != "" || len(links) != len(want) {
		t.Errorf("%d links: %s", len(links), diff)
	}
}

func TestASpanOfACheckThatPanicsEndsAsAnError(t *testing.T) {
	t.Parallel()
	registry := jobs.NewRegistry()
	registry.Register("panics", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { panic("boom") }), jobs.Retry(0))
	list, result := spans(t, registry, 1)
	check := named(t, list, "check panics")
	if check.Status.Code != codes.Error || !strings.Contains(check.Status.Description, "panicked") {
		t.Errorf("%+v", check.Status)
	}
	if len(result.Failures) != 1 || result.Failures[0].Error != "panic: boom" {
		t.Errorf("%+v", result.Failures)
	}
}

func TestAttributesAreThoseOfTheLog(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewInMemoryExporter()
	registry := jobs.NewRegistry()
	oteltrace.Use(registry, sdktrace.NewTracerProvider(sdktrace.WithSyncer(recorder)))
	_, end := registry.Clone().StartSpan(reserved.Caller{}, t.Context(), "publish", slog.Int("events", 3), slog.Bool("yes", true))
	end(errors.New("refused"), slog.Duration("took", 1500*time.Millisecond), slog.Any("unknown", []string{"a", "b"}), slog.Any("other", 1i))
	s := recorder.GetSpans()[0]
	want := []attribute.KeyValue{
		attribute.Int("prescient.events", 3), attribute.Bool("prescient.yes", true), attribute.Float64("prescient.took", 1.5),
		attribute.StringSlice("prescient.unknown", []string{"a", "b"}), attribute.String("prescient.other", "(0+1i)"),
	}
	if s.Name != "prescient publish" || !slices.Equal(s.Attributes, want) || s.Status.Description != "refused" {
		t.Errorf("%+v", s)
	}
}

func TestNobodyLinksOpenTelemetryWhoDoesNotImportIt(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "../../cmd/prescient", "../../examples/orders").CombinedOutput()
	if err != nil {
		t.Fatal(err, string(out))
	}
	if !strings.Contains(string(out), "github.com/prescient-go/prescient/slots\n") {
		t.Fatalf("these are no packages of the binary:\n%s", out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "opentelemetry") || strings.Contains(line, "oteltrace") {
			t.Errorf("it links %s", line)
		}
	}
}
