package cmd

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

type within struct{}

func TestEventsArePublishedInASpanWithinTheirClaim(t *testing.T) {
	url := pgtest.URL(t)
	t.Setenv("PRESCIENT_DATABASE_URL", url)
	var mu sync.Mutex
	var ended []string
	registry := jobs.NewRegistry()
	registry.Trace(reserved.Caller{}, func(ctx context.Context, name string, _ ...slog.Attr) (context.Context, func(error, ...slog.Attr)) {
		path, _ := ctx.Value(within{}).(string)
		path += "/" + name
		return context.WithValue(ctx, within{}, path), func(err error, _ ...slog.Attr) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				path += ": " + err.Error()
			}
			ended = append(ended, path)
		}
	})
	run := func(args ...string) {
		t.Helper()
		var out, log bytes.Buffer
		app := New(registry)
		app.Out, app.Err = &out, &log
		if code := app.Run(t.Context(), args); code != Done {
			t.Fatalf("%v: exit code %d\n%s%s", args, code, &log, &out)
		}
	}
	run("schedules", "create", "report", "--crontab", "@every 15m", "--anchor", "2026-01-01")
	db, err := pgsql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var slot time.Time
	err = db.GetContext(t.Context(), &slot, `select next_check_at - interval '15 minutes' from prescient.future_job`)
	if err == nil {
		_, err = db.ExecContext(t.Context(), `update prescient.future_job set next_check_at = $1, payload = jsonb_build_object('at', $2::bigint)`, slot, slot.Unix())
	}
	if err != nil {
		t.Fatal(err)
	}
	run("run", "--slot", slot.UTC().Format(time.RFC3339))
	slices.Sort(ended)
	if diff := cmp.Diff([]string{"/run", "/run/claim", "/run/claim/publish"}, ended); diff != "" {
		t.Error(diff)
	}
}
