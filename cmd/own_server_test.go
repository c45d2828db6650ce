package cmd_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/cmd"
	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/daemon"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// The server has the binary's own jobs, so that status must not tell to let this binary run the slots.
func TestStatusNamesAServerThatRunsTheSlotsWithoutRulesAndSchedules(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it changes no row by such functions")
	address := pgtest.URL(t)
	db, err := pgsql.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.MustExec("create table public.orders (id bigint primary key, placed_at timestamptz, shipped_at timestamptz)")
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("rules:\n- {name: order.late, table: public.orders, key: id, since: placed_at, "+
		"done: shipped_at, steps: [{after: 48h, event: order.late}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := &bytes.Buffer{}
	run := func(ctx context.Context, args ...string) cmd.Code {
		out.Reset()
		app := cmd.New(registry())
		app.Out, app.Err = out, out
		return app.Run(ctx, append(args, "--database-url", address))
	}
	for _, args := range [][]string{
		{"rules", "apply", "-f", rules}, {"schedules", "create", "report", "--crontab", "@hourly"},
	} {
		if code := run(t.Context(), args...); code != cmd.Done {
			t.Fatalf("%v: exit code %d: %s", args, code, out)
		}
	}
	db.MustExec("insert into public.orders values (42, now())")
	db.MustExec("update public.orders set placed_at = now() - interval '50 hours'")
	db.MustExec(`update prescient.setting set since = date_trunc('hour', now(), 'UTC') - interval '1 hour'`)
	db.MustExec(`update prescient.future_job set enqueued_at = now() - interval '1 day',
		first_check_at = date_trunc('hour', now(), 'UTC') - interval '1 hour',
		next_check_at = date_trunc('hour', now(), 'UTC') - interval '1 hour',
		payload = case when entity_name = 'schedule' then jsonb_build_object('at',
			extract(epoch from date_trunc('hour', now(), 'UTC') - interval '1 hour')::bigint) else payload end`)
	events := func() (n int) {
		t.Helper()
		if err := db.Get(&n, "select count(distinct type) from prescient.event_outbox"); err != nil {
			t.Fatal(err)
		}
		return n
	}

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	cfg := daemon.Config{Runner: slots.Config{DB: db, Registry: registry(), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}}
	go func() { ended <- daemon.Run(ctx, cfg) }()
	await.True(t, "the server to leave the slot open, and to run the ones after it", func() (has bool) {
		if err := db.Get(&has, `select count(*) filter (where state = 'open') = 1 and count(*) filter (where state = 'done') > 3
			from prescient.slot_run`); err != nil {
			t.Fatal(err)
		}
		return has
	})
	stop()
	if err := await.Receive(t, "the server to end", ended); err != nil || events() != 0 {
		t.Fatalf("%v, %d events", err, events())
	}
	code := run(t.Context(), "status", "--check")
	for _, want := range []string{
		"no run of the last 7 days had: order.late (1 due), schedule (1 due). ",
		"A server that calls daemon.Run has only what it registers", "run --catch-up",
	} {
		if code != cmd.Found || !strings.Contains(out.String(), want) {
			t.Errorf("exit code %d without %q:\n%s", code, want, out)
		}
	}

	ctx, stop = context.WithCancel(t.Context())
	codes := make(chan cmd.Code, 1)
	go func() { codes <- run(ctx, "daemon") }() // as server.md has it
	await.True(t, "an event of the rule and one of the schedule", func() bool { return events() == 2 })
	stop()
	if code := await.Receive(t, "the daemon to end", codes); code != cmd.Done {
		t.Errorf("exit code %d: %s", code, out)
	}
}
