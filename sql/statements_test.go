package sql_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
	"github.com/prescient-go/prescient/sql/statements"
)

func TestEveryStatementIsValidAgainstTheMigratedSchema(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	files, err := fs.Glob(os.DirFS("statements"), "*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("no statements: %v", err)
	}
	for _, schema := range []pgsql.Schema{"", "order_checks"} {
		if err := pgsql.Migrate(t.Context(), db, schema); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range files {
		text, err := os.ReadFile("statements/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, schema := range []pgsql.Schema{"", "order_checks"} {
			err := pgsql.InTx(t.Context(), db, func(tx *sqlx.Tx) error { // COPY cannot be prepared in any other way
				stmt, err := tx.PrepareContext(t.Context(), pg.NewStatement(statements.Expand(string(text))).In(schema))
				if err != nil {
					return err
				}
				defer func() { _ = stmt.Close() }()
				return nil
			})
			if err != nil {
				t.Errorf("%s in schema %q: %v", file, schema, err)
			}
		}
		if strings.ToLower(string(text)) != string(text) && !strings.Contains(string(text), "--") {
			t.Errorf("%s: statements are lower case", file)
		}
	}
}

func TestEveryStatementHasItsFileAndEveryFileItsStatement(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../internal/pg/statements.go")
	if err != nil {
		t.Fatal(err)
	}
	var named, want []string
	for _, found := range regexp.MustCompile(`= file\("(\w+)"\)`).FindAllStringSubmatch(string(source), -1) {
		named = append(named, "statements/"+found[1]+".sql")
	}
	if want, err = filepath.Glob("statements/*.sql"); err != nil || len(want) == 0 {
		t.Fatalf("no statements: %v", err)
	}
	slices.Sort(named)
	if diff := cmp.Diff(want, named); diff != "" {
		t.Errorf("files (-) and statements (+):\n%s", diff)
	}
}

func TestAStatementForAnotherSchemaDoesNotNameTheDefaultOne(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if err := pgsql.Migrate(t.Context(), db, "order_checks"); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "drop schema prescient cascade")
	if got := get[int64](t, db, `select id from order_checks.enqueue('remind', 'order', '1', check_at => clock_timestamp())`); got != 1 {
		t.Errorf("id %d", got)
	}
	for _, statement := range []string{
		"select order_checks.reschedule('remind', 'order', '1', check_at => clock_timestamp() + interval '1 hour')",
		"select order_checks.push_back('remind', 'order', '1', check_at => clock_timestamp() + interval '2 hours')",
		"select order_checks.enqueue_many('{remind}', '{order}', '{2}', item_keys => '{a}', check_ats => array[clock_timestamp()])",
		"select order_checks.make_history_months()",
		"select order_checks.make_history_month('2031-01-01')",
		"select order_checks.cancel('remind', 'order', '1')",
		"select order_checks.cancel_entity('order', '2')",
		"select order_checks.enqueue('remind', 'order', '3', check_at => case when set_config('prescient_caller.clock', ('2029-01-01')::timestamptz::text, true) is not null then ('2030-03-01')::timestamptz end)",
		"select order_checks.open_slot('2030-03-01', 'run', 1, 'me', '1 minute', '2030-03-01')",
		"select order_checks.claim_rows('2030-03-01', 'run', 2, 'me', '1 minute', array[order_checks.ensure_job('remind')], 10)",
		"update order_checks.slot_claim set allocated_until = 'epoch' where token = 2",
		"select order_checks.take_over('2030-03-01', 'run', 3, 'me', '1 minute', array[order_checks.ensure_job('remind')])",
		`select order_checks.begin_check(row('2030-03-01', job, id, false, 'me', '100', '1000', 'check of remind')::order_checks.row_check), order_checks.same_check(pg_current_xact_id()::xid::text), order_checks.record_row(row(
			'2030-03-01', 3, 1, job, 'remind', id, 'done', null, null, null, null, 0, 0, false, 'me', null, null, null, null, null, null, null)::order_checks.row_outcome) from order_checks.future_job`,
		"select order_checks.fence('2030-03-01', 3, 2, true, null)",
		"select order_checks.close_slot('2030-03-01')",
		"select order_checks.lock_group('a')",
		"select order_checks.drop_history_months('2031-01-01', true)",
		"select order_checks.set_width('1 hour')",
	} {
		exec(t, db, statement)
	}
}
