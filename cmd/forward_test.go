package cmd

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// forwarding returns what runs the command events forward, with a destination that calls taken for each event, and what
// publishes an event.
func forwarding(t *testing.T, taken func()) (
	forward func(ctx context.Context) (Code, string), publish func(), db *sqlx.DB,
) {
	t.Helper()
	url := pgtest.URL(t)
	t.Setenv("PRESCIENT_DATABASE_URL", url)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { taken() }))
	t.Cleanup(server.Close)
	t.Setenv("PRESCIENT_EVENTS_DESTINATION", server.URL)
	t.Setenv("PRESCIENT_EVENTS_ALLOWED_NETWORKS", "127.0.0.1")
	db, err := pgsql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	publish = func() {
		if err := outbox.New(db, pgsql.DefaultSchema).Publish(t.Context(), []event.Event{{ID: "1", Source: "s", Type: "t"}}); err != nil {
			t.Fatal(err)
		}
	}
	return func(ctx context.Context) (Code, string) {
		var out, log bytes.Buffer
		app := New(jobs.NewRegistry())
		app.Out, app.Err = &out, &log
		code := app.Run(ctx, []string{"events", "forward"})
		return code, log.String() + out.String()
	}, publish, db
}

// settle waits until no transaction on the server is open that was open at the call.
func settle(t *testing.T, db *sqlx.DB) {
	t.Helper()
	var last uint64
	if err := db.GetContext(t.Context(), &last, "select pg_current_xact_id()::text"); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the end of other transactions", func() bool {
		var oldest uint64
		err := db.GetContext(t.Context(), &oldest, "select pg_snapshot_xmin(pg_current_snapshot())::text")
		if err != nil {
			t.Fatal(err)
		}
		return oldest > last
	})
}

func TestForwardingFailsIfAnOpenTransactionHoldsBackTheEvents(t *testing.T) {
	forward, publish, db := forwarding(t, func() {})
	if code, log := forward(t.Context()); code != Done {
		t.Fatalf("exit code %d: %s", code, log)
	}
	tx := db.MustBeginTx(t.Context(), nil)
	defer func() { _ = tx.Rollback() }()
	tx.MustExecContext(t.Context(), "select pg_current_xact_id()")
	publish()
	if code, log := forward(t.Context()); code != Failure || !strings.Contains(log, "wait behind an open transaction") {
		t.Errorf("exit code %d, want %d: %s", code, Failure, log)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	settle(t, db)
	if code, log := forward(t.Context()); code != Done || !strings.Contains(log, "destination     1 ") {
		t.Errorf("exit code %d, want %d: %s", code, Done, log)
	}
}

func TestForwardingThatASignalStopsSaysSo(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	forward, publish, db := forwarding(t, stop)
	if code, log := forward(t.Context()); code != Done {
		t.Fatalf("exit code %d: %s", code, log)
	}
	publish()
	settle(t, db)
	if code, log := forward(ctx); code != Stopped || !strings.Contains(log, "stopped by a signal") {
		t.Errorf("exit code %d, want %d: %s", code, Stopped, log)
	}
}
