package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
)

type seen struct{}

// note is a middleware that takes note of what it is around of, and of the context that the function got.
func note(log *[]string, name string) jobs.Middleware {
	return func(ctx context.Context, call jobs.Call, next func(context.Context) ([]jobs.Result, error)) ([]jobs.Result, error) {
		*log = append(*log, fmt.Sprintf("%s: %d of %s", name, len(call.Rows), call.JobExec))
		call.Rows[0].EntityKey = "changed by " + name
		trail, _ := ctx.Value(seen{}).([]string)
		results, err := next(context.WithValue(ctx, seen{}, append(slices.Clip(trail), name)))
		*log = append(*log, fmt.Sprintf("%s: %d results, %v", name, len(results), err))
		return results, err
	}
}

func TestMiddlewareIsAroundEveryShapeAndTheFirstIsTheOutermost(t *testing.T) {
	t.Parallel()
	var log []string
	errBad := errors.New("bad")
	called := func(ctx context.Context, rows ...jobs.FutureJob) {
		log = append(log, fmt.Sprintf("function: %s after %v", rows[0].EntityKey, ctx.Value(seen{})))
	}
	r := jobs.NewRegistry()
	r.Register("one", jobs.Row(func(ctx context.Context, job jobs.FutureJob) (*time.Time, error) {
		called(ctx, job)
		return nil, errBad
	}))
	r.Register("tx", jobs.InTx(func(ctx context.Context, _ *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		called(ctx, job)
		return nil, errBad
	}))
	r.Use(note(&log, "outer"))
	r.Register("batch", jobs.Batch(func(ctx context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		called(ctx, batch...)
		return make([]jobs.Result, len(batch)), nil
	}))
	r.Use(note(&log, "inner"))
	r.Register("batch tx", jobs.BatchInTx(func(ctx context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		called(ctx, batch...)
		return nil, errBad
	}))
	r.Register("group", jobs.Group("family", func(ctx context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		called(ctx, batch...)
		return make([]jobs.Result, len(batch)), nil
	}))
	for name, test := range map[string]struct {
		rows   []jobs.FutureJob
		result string
	}{
		"one":      {[]jobs.FutureJob{check("1", now)}, "1 results, bad"},
		"tx":       {[]jobs.FutureJob{check("1", now)}, "1 results, bad"},
		"batch":    {[]jobs.FutureJob{check("1", now), check("2", now)}, "2 results, <nil>"},
		"batch tx": {[]jobs.FutureJob{check("1", now), check("2", now)}, "0 results, bad"},
		"group":    {[]jobs.FutureJob{check("1", now), check("2", now)}, "2 results, <nil>"},
	} {
		log = nil
		d, _ := r.Lookup(name)
		_, err := d.Call(t.Context(), nil, test.rows)
		want := []string{
			fmt.Sprintf("outer: %d of %s", len(test.rows), name), fmt.Sprintf("inner: %d of %s", len(test.rows), name),
			"function: 1 after [outer inner]", "inner: " + test.result, "outer: " + test.result,
		}
		if diff := cmp.Diff(want, log); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if failed := test.result[len(test.result)-3:] == "bad"; failed != errors.Is(err, errBad) {
			t.Errorf("%s: %v", name, err)
		}
		if test.rows[0].EntityKey != "1" {
			t.Errorf("%s: the row was changed: %v", name, test.rows[0].Key())
		}
	}
}

func TestMiddlewareMayFailAllRowsAndMustAnswerForEachRow(t *testing.T) {
	t.Parallel()
	errClosed := errors.New("closed on Sundays")
	r := jobs.NewRegistry()
	r.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		t.Error("the function was called")
		return nil, nil
	}))
	answer := errClosed
	r.Use(func(context.Context, jobs.Call, func(context.Context) ([]jobs.Result, error)) ([]jobs.Result, error) {
		return nil, answer
	})
	d, _ := r.Lookup("job")
	if _, err := d.Call(t.Context(), nil, []jobs.FutureJob{check("1", now)}); !errors.Is(err, errClosed) {
		t.Error(err)
	}
	answer = nil
	if _, err := d.Call(t.Context(), nil, []jobs.FutureJob{check("1", now)}); err == nil {
		t.Error("no results for a row are no error")
	}
}

func TestAPanicPassesThroughMiddleware(t *testing.T) {
	t.Parallel()
	r := jobs.NewRegistry()
	r.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { panic("boom") }))
	cleaned := false
	r.Use(func(ctx context.Context, call jobs.Call, next func(context.Context) ([]jobs.Result, error)) ([]jobs.Result, error) {
		defer func() { cleaned = true }()
		return next(ctx)
	})
	defer func() {
		if p := recover(); p != "boom" || !cleaned {
			t.Errorf("panic %v, cleaned up %t", p, cleaned)
		}
	}()
	d, _ := r.Lookup("job")
	_, _ = d.Call(t.Context(), nil, []jobs.FutureJob{check("1", now)})
}

func TestMiddlewareOfACloneIsItsOwn(t *testing.T) {
	t.Parallel()
	var log []string
	r := jobs.NewRegistry()
	r.Register("job", jobs.Row(done))
	r.Use(note(&log, "both"))
	clone := r.Clone()
	clone.Use(note(&log, "clone"))
	r.Use(note(&log, "original"))
	clone.Register("later", jobs.Row(done))
	for _, test := range []struct {
		registry *jobs.Registry
		job      string
		want     string
	}{{r, "job", "original"}, {clone, "job", "clone"}, {clone, "later", "clone"}} {
		log = nil
		d, _ := test.registry.Lookup(test.job)
		if _, err := d.Call(t.Context(), nil, []jobs.FutureJob{check("1", now)}); err != nil {
			t.Fatal(err)
		}
		if want := []string{"both: 1 of " + test.job, test.want + ": 1 of " + test.job}; !slices.Equal(log[:2], want) {
			t.Errorf("%v, want %v", log[:2], want)
		}
	}
}
