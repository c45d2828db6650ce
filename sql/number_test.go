package sql_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// hashesAlike maps names to others with the same hashtextextended(name, 0), which anyone finds in a second.
var hashesAlike = map[string]string{
	"order.late":      "jcT0DS?pi2o",
	"schedule":        "+P?C8&4`m5=",
	"trial.ended":     "PZ6=S7ZNHs!",
	"invoice.overdue": `"mXsZi. }>`,
}

func TestAnApplicationCannotAimAtTheNumberOfAnotherJob(t *testing.T) {
	t.Parallel()
	const schema = "aimed_at"
	db := withRoles(t, schema)
	exec(t, db, "insert into aimed_at.rule (name, relation, definition) values ('order.late', 'shop.orders', '{}')")
	for name := range hashesAlike {
		exec(t, db, "select aimed_at.enqueue($1, 'orders', '42', check_at => '2030-03-01')", name)
	}
	for name, alike := range hashesAlike {
		for call, found := range map[string]string{
			"select aimed_at.cancel($1, 'orders', '42')":                                       "false",
			"select aimed_at.reschedule($1, 'orders', '42', check_at => '2100-01-01') is null": "true",
			"select aimed_at.push_back($1, 'orders', '42', check_at => '2100-01-01') is null":  "true",
			"select action from aimed_at.enqueue($1, 'orders', '42', check_at => now())":       "inserted",
		} {
			if err := as(t, db, "aimed_at_app", func(tx *sqlx.Tx) error {
				if got := get[string](t, tx, call, alike); got != found {
					t.Errorf("%s for %s, which hashes like %s: %s, want %s", call, alike, name, got, found)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
		// Under any of these names, a row is of no hindrance to the runs of the other.
		exec(t, db, "select aimed_at.enqueue($1, 'x', '1', check_at => '2030-03-01')", alike)
		if n := get[int](t, db, "select count(*) from aimed_at.register_jobs(array[$1, $2], '{null,null}', true) where name in ($1, $2)", name, alike); n != 2 {
			t.Errorf("%d of %s and %s are registered", n, name, alike)
		}
	}
	if n := get[int](t, db, "select count(*) from aimed_at.future_job where entity_name = 'orders' and next_check_at = '2030-03-01'"); n != len(hashesAlike) {
		t.Errorf("%d rows wait as before", n)
	}
}

// Two schemas give a name different numbers, so one of them tells nothing about the other.
func TestANumberFollowsFromTheSecretOfItsSchemaWhichOnlyTheOwnerMayRead(t *testing.T) {
	t.Parallel()
	const schema = "secret_number"
	db := withRoles(t, schema)
	if err := pgsql.Migrate(t.Context(), db, "prescient"); err != nil {
		t.Fatal(err)
	}
	const number = `.find_job('remind')`
	here, there := get[int64](t, db, "select secret_number"+number), get[int64](t, db, "select prescient"+number)
	if here == there || here < 0 || there < 0 {
		t.Errorf("the numbers are %d and %d", here, there)
	}
	for role, includes := range contains {
		err := as(t, db, role.In(pgsql.Schema(schema)), func(tx *sqlx.Tx) error {
			_, err := tx.ExecContext(t.Context(), "select secret from secret_number.job_secret")
			return err
		})
		if owner := slices.Contains(includes, pg.Owner); (err == nil) != owner {
			t.Errorf("%s reads the secret: %v", role, err)
		}
	}
}

// takeNumber gives another name the number that a name would get.
func takeNumber(t *testing.T, db sqlx.ExecerContext, name string) {
	t.Helper()
	exec(t, db, "insert into prescient.job (job, name) values (prescient.job_number($1), 'as it happens')", name)
}

func TestANameWhoseNumberIsTakenFindsNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	takeNumber(t, db, "remind")
	exec(t, db, "select prescient.enqueue('as it happens', 'order', '1', check_at => '2030-03-01')")
	for _, call := range []string{
		"not prescient.cancel('remind', 'order', '1')",
		"prescient.reschedule('remind', 'order', '1', check_at => '2030-03-02') is null",
		"prescient.push_back('remind', 'order', '1', check_at => '2030-03-02') is null",
	} {
		if !get[bool](t, db, "select "+call) {
			t.Errorf("want %s", call)
		}
	}
}

func TestANameWhoseNumberIsTakenKeepsNoOtherJobFromItsRun(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	takeNumber(t, db, "remind")
	if got := list(t, db, "select name from prescient.register_jobs('{alert,remind,urge}', '{null,null,null}', false) order by name"); !slices.Equal(got, []string{"alert", "urge"}) {
		t.Errorf("registered: %v", got)
	}
	if n := get[int](t, db, "select count(*) from prescient.job where registered_at is not null"); n != 2 {
		t.Errorf("%d are recorded as registered", n)
	}
}

func TestAnEnqueueComparesTheNameAfterItHasWaitedForItsNumber(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	first, second := begin(t, db), begin(t, db)
	takeNumber(t, first, "remind")
	done := make(chan error, 1)
	go func() {
		_, err := second.ExecContext(t.Context(), "select prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01')")
		done <- err
	}()
	pgtest.AwaitWaits(t, db, 1)
	exec(t, first, "commit")
	if err := <-done; !pg.HasState(err, pqerror.UniqueViolation) || !strings.Contains(err.Error(), "'as it happens'") {
		t.Errorf("the enqueue that waited: %v", err)
	}
}

// Any login may hold the advisory lock of a name. Then the name has no row before a run registers it.
func TestCancelEntityLeavesTheRowsOfARuleWhoseNameHasNoRow(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	holder := begin(t, db)
	exec(t, holder, "select pg_advisory_xact_lock(hashtextextended('prescient.job order.late', 0))")
	exec(t, db, "insert into prescient.rule (name, relation, definition) values ('order.late', 'shop.orders', '{}')")
	exec(t, db, "select prescient.rule_wait('order.late', 'orders', '42', '2030-03-01')")
	exec(t, db, "select prescient.enqueue('remind', 'orders', '42', check_at => '2030-03-01')")
	if n := get[int](t, db, "select prescient.cancel_entity('orders', '42')"); n != 1 {
		t.Errorf("%d checks ended, want that of the job", n)
	}
	if n := get[int](t, db, "select count(*) from prescient.future_job where job = prescient.find_job('order.late')"); n != 1 {
		t.Errorf("%d checks of the rule wait", n)
	}
}
