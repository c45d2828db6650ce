package cmd_test

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3/lock"

	"github.com/prescient-go/prescient/cmd"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// hold locks a table until the test ends.
func hold(t *testing.T, url, table string) *sqlx.Tx {
	t.Helper()
	db, err := pgsql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	holder := db.MustBegin()
	t.Cleanup(func() { _ = holder.Rollback() })
	holder.MustExec("lock table " + table + " in access exclusive mode")
	return holder
}

func TestACommandThatWaitsForALockSaysWhoHoldsIt(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "locks of its tables are those of the worker")
	url := pgtest.URL(t)
	var pid string
	if err := hold(t, url, "prescient.future_job").Get(&pid, "select pg_backend_pid()"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	said := &until{what: "waiting for a lock", then: cancel} // as Ctrl-C
	app := cmd.New(registry())
	app.Out, app.Err = io.Discard, said
	if code := app.Run(ctx, []string{"status", "--database-url", url}); code != cmd.Failure {
		t.Errorf("exit code %d", code)
	}
	want := regexp.MustCompile(`level=WARN msg="waiting for a lock" lock=prescient\.future_job holder="session ` + pid +
		` of .* \(.*, idle in transaction\)" to_end_it="select pg_terminate_backend\(` + pid + `\)" since=\S+Z\n` +
		`\S+ status: read the status: interrupted\n$`)
	if !want.MatchString(said.String()) || strings.Count(said.String(), "\n") != 2 {
		t.Errorf("it says %s", said)
	}
}

// A login without any right on prescient can take advisory locks.
func TestACommandThatWaitsForALockOfAStrangerNamesTheStranger(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "locks of its tables are those of the worker")
	const stranger = "locks_stranger"
	address := pgtest.Direct(t)
	db, err := pgsql.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.MustExec("create role " + stranger + " login password 'stranger'; create schema new")
	pgtest.DropRoles(t, db, stranger)
	db.MustExec("update prescient.setting set since = '2026-01-01 00:00:00Z'")
	slot := time.Date(2026, time.January, 2, 0, 0, 0, 0, time.UTC)
	permits, group := slot.Add(15*time.Minute), slot.Add(30*time.Minute)
	for job, at := range map[string]time.Time{"permits": permits, "group": group} {
		db.MustExec(`select prescient.enqueue($1, 'order', '1', check_at => case when set_config('prescient_caller.clock', ('2026-01-01')::timestamptz::text, true) is not null then ($2)::timestamptz end, group_key => 'household')`, job, at)
	}
	var limited int64
	if err := db.Get(&limited, "select prescient.find_job('permits')"); err != nil {
		t.Fatal(err)
	}
	as, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	as.User = url.UserPassword(stranger, "stranger")
	foreign, err := pgsql.Open(t.Context(), as.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = foreign.Close() })
	for _, test := range []struct {
		key  string
		args []string
	}{
		{fmt.Sprintf("hashtextextended('prescient.slot ' || extract(epoch from timestamptz '%s'), 0)", slot.Format(time.RFC3339)), []string{"run", "--slot", slot.Format(time.RFC3339)}},
		{fmt.Sprintf("hashtextextended('prescient.permits %d', 0)", limited), []string{"run", "--slot", permits.Format(time.RFC3339)}},
		{"hashtextextended('prescient.group household', 0)", []string{"run", "--slot", group.Format(time.RFC3339)}},
		{"hashtextextended('prescient.roles', 0)", []string{"migrate", "roles"}},
		{strconv.FormatInt(lock.DefaultLockID, 10), []string{"migrate", "down", "--yes"}},
		{strconv.FormatInt(lock.DefaultLockID, 10), []string{"migrate", "up", "--schema", "new"}},
	} {
		t.Run(strings.Join(test.args[:2], " "), func(t *testing.T) {
			t.Parallel()
			holder := foreign.MustBegin()
			t.Cleanup(func() { _ = holder.Rollback() })
			holder.MustExec("select pg_advisory_xact_lock(" + test.key + ")")
			ctx, cancel := context.WithCancel(t.Context())
			said := &until{what: "to_end_it", then: cancel} // as Ctrl-C
			known := registry()
			known.Register("permits", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }), jobs.AtMost(1))
			known.Register("group", jobs.Group("household", func(_ context.Context, _ *sqlx.Tx, rows []jobs.FutureJob) ([]jobs.Result, error) {
				return make([]jobs.Result, len(rows)), nil
			}))
			app := cmd.New(known)
			app.Out, app.Err = io.Discard, said
			if code := app.Run(ctx, append(test.args, "--database-url", address)); code != cmd.Failure && code != cmd.Stopped {
				t.Errorf("exit code %d", code)
			}
			want := regexp.MustCompile(`msg="waiting for a lock(" .*lock="advisory lock"| that another session has" .*(group=household|permits_of=permits)) holder="session \d+ of ` + stranger +
				` \(.*\)" to_end_it="select pg_terminate_backend\(\d+\)"`)
			if !want.MatchString(said.String()) {
				t.Errorf("it says %s", said)
			}
		})
	}
}

func TestACheckThatRanBesideLockedOnesOfItsJobExitsWithLeft(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	db, err := pgsql.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	var today time.Time
	if err := db.Get(&today, "select date_trunc('day', clock_timestamp(), 'UTC')"); err != nil {
		t.Fatal(err)
	}
	db.MustExec("update prescient.setting set width = '24 hours', since = $1", today)
	yesterday := func() time.Time { return today.Add(-time.Hour) }
	client, err := jobs.NewClient(t.Context(), db, jobs.Config{Now: yesterday})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.EnqueueMany(t.Context(), jobs.OwnTx(db), []jobs.Request{
		{JobExec: "ok", EntityName: "order", EntityKey: "1", CheckAt: today.Add(24 * time.Hour)},
		{JobExec: "ok", EntityName: "order", EntityKey: "2", CheckAt: today},
	})
	if err != nil {
		t.Fatal(err)
	}
	holder := db.MustBegin()
	t.Cleanup(func() { _ = holder.Rollback() })
	holder.MustExec("select from prescient.future_job where entity_key = '2' for update")
	app := cmd.New(registry())
	var out, said strings.Builder
	app.Out, app.Err = &out, &said
	if code := app.Run(t.Context(), []string{"jobs", "run", "ok", "order", "1", "--database-url", address}); code != cmd.Left {
		t.Errorf("exit code %d: %s", code, &said)
	}
	want := "ok on order 1 was checked, and ended as done. Other due checks of the job are locked, and left to catch-up: "
	if !strings.HasPrefix(out.String(), want) {
		t.Errorf("it says %s", &out)
	}
}

func TestStoresAreListedThoughTheTablesOfOneAreLocked(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "locks of its tables are those of the worker")
	locked, free := pgtest.URL(t), pgtest.URL(t)
	hold(t, locked, "prescient.setting")
	file := filepath.Join(t.TempDir(), "stores.yaml")
	text := fmt.Sprintf("stores:\n  - {name: locked, url: %q}\n  - {name: free, url: %q}\n", locked, free)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	app := cmd.New(registry())
	var out, said strings.Builder
	app.Out, app.Err = &out, &said
	if code := app.Run(t.Context(), []string{"stores", "list", "--config", file}); code != cmd.Failure {
		t.Errorf("exit code %d", code)
	}
	if !regexp.MustCompile(`\nlocked .* down `).MatchString(out.String()) || !regexp.MustCompile(`\nfree .* active `).MatchString(out.String()) {
		t.Errorf("it lists %s", &out)
	}
	if !regexp.MustCompile(`waiting for a lock" lock=prescient\.setting .*\n.* store locked: it has not answered for 10s: `).MatchString(said.String()) {
		t.Errorf("it says %s", &said)
	}
}

// until calls a function when it was told something.
type until struct {
	strings.Builder
	what string
	then func()
}

func (u *until) Write(p []byte) (int, error) {
	defer func() {
		if strings.Contains(u.String(), u.what) {
			u.then()
		}
	}()
	return u.Builder.Write(p)
}
