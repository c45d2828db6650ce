package cmd_test

import (
	"bytes"
	"io"
	"regexp"
	"testing"

	"github.com/prescient-go/prescient/cmd"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// An application may enqueue rows of any number of names that no binary has.
func TestRowsOfManyUnknownJobsCostACatchUpFewTransactions(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "the transactions of workers count, too")
	const names = 600
	address := pgtest.Direct(t)
	db, err := pgsql.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.MustExec("update prescient.setting set since = '2026-01-01 00:00:00Z'")
	db.MustExec(`
		insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at)
		select prescient.ensure_job('flood.' || n), 'order', '1', '2026-01-02 00:00:00Z', '2026-01-02 00:00:00Z'
		from generate_series(1, $1) as n`, names)
	ended := func() (n int64) {
		t.Helper()
		for others := 1; others > 0; { // a session counts its transactions before it leaves the list
			if err := db.Get(&others, `
				select count(*) from pg_stat_activity
				where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()`); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Get(&n, "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"); err != nil {
			t.Fatal(err)
		}
		return n
	}
	versions := func() (n int64) { // the newest transaction that wrote one of the slot's rows; 0: there is none
		t.Helper()
		if err := db.Get(&n, "select coalesce(max(xmin::text::bigint), 0) from prescient.slot_job where slot = '2026-01-02 00:00:00Z'"); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, args := range [][]string{
		{"catch-up", "--since", "2026-01-02", "--until", "2026-01-03"},
		{"run", "--slot", "2026-01-02T01:00:00Z"},
		{"run", "--catch-up", "--slot", "2026-01-02T01:00:00Z"},
	} {
		before, rows := ended(), versions()
		app := cmd.New(registry())
		said := &bytes.Buffer{}
		app.Out, app.Err = io.Discard, said
		code := app.Run(t.Context(), append(args, "--database-url", address))
		if args[0] == "catch-up" && (code != cmd.Left || !regexp.MustCompile(`rows are left.* jobs="\[flood\.1 flood\.10 `).MatchString(said.String())) {
			t.Errorf("%v: exit code %d, says %s", args, code, said)
		}
		if n := ended() - before; n >= names {
			t.Errorf("%v: %d transactions for %d names", args, n, names)
		}
		if now := versions(); rows > 0 && now != rows {
			t.Errorf("%v: wrote the rows of the slot again", args)
		}
	}
}
