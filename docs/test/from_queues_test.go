package docs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/sql/pgtest"
)

// queues are tables of the queues, as far as the statements of the page read them, with a job for each of two orders.
var queues = map[string]string{
	"river.sql": `create table river_job (id bigint generated always as identity, kind text, state text, args jsonb, scheduled_at timestamptz);
		insert into river_job (kind, state, args, scheduled_at) values ('order_unshipped', 'scheduled', '{"order_id": 42}', now() + interval '1 day'),
			('order_unshipped', 'scheduled', '{"order_id": 43}', now() + interval '2 days'),
			('order_unshipped', 'available', '{"order_id": 44}', now()),
			('mail', 'scheduled', '{"order_id": 45}', now() + interval '1 day')`,
	"pgboss.sql": `create schema pgboss;
		create table pgboss.job (id uuid default gen_random_uuid(), name text, state text, data jsonb, start_after timestamptz);
		insert into pgboss.job (name, state, data, start_after) values ('order_unshipped', 'created', '{"order_id": 42}', now() + interval '1 day'),
			('order_unshipped', 'created', '{"order_id": 43}', now() + interval '2 days'),
			('order_unshipped', 'created', '{"order_id": 44}', now()),
			('mail', 'created', '{"order_id": 45}', now() + interval '1 day')`,
}

func TestTheStatementsOfThePageMoveWhatWaitsInAQueue(t *testing.T) {
	t.Parallel()
	for file, setup := range queues {
		db := pgtest.New(t)
		db.MustExec(setup)
		if moved, err := move(t, db, named(t, "from-queues.md", file)); err != nil || moved != "inserted 2" {
			t.Errorf("%s: %q, %v", file, moved, err)
		}
		if diff := cmp.Diff(map[string]int{"42": 1, "43": 1, "in the queue": 2}, places(t, db, file)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// A key has one row.
func TestTheStatementsOfThePageLoseNoJobOfAnOrderThatHasTwo(t *testing.T) {
	t.Parallel()
	for file, setup := range queues {
		db := pgtest.New(t)
		db.MustExec(setup)
		db.MustExec(setup[strings.Index(setup, "insert"):])
		statement := named(t, "from-queues.md", file)
		moved, err := move(t, db, statement)
		if err == nil || !strings.Contains(err.Error(), "entity_key '42'") {
			t.Errorf("%s: %q, %v", file, moved, err)
		}
		if diff := cmp.Diff(map[string]int{"in the queue": 8}, places(t, db, file)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
		each := strings.NewReplacer("returning ", "returning id, ", "payload => ", "item_key => id::text, payload => ")
		if moved, err := move(t, db, each.Replace(statement)); err != nil || moved != "inserted 4" {
			t.Errorf("%s, with item_key: %q, %v", file, moved, err)
		}
	}
}

// move runs a statement of the page, and returns what it prints.
func move(t *testing.T, db *sqlx.DB, statement string) (printed string, err error) {
	t.Helper()
	var rows []struct {
		Action string
		Count  int
	}
	err = db.SelectContext(t.Context(), &rows, statement)
	for _, row := range rows {
		printed += fmt.Sprint(row.Action, " ", row.Count)
	}
	return printed, err
}

// places counts the jobs in the queue, and the rows by order.
func places(t *testing.T, db *sqlx.DB, file string) map[string]int {
	t.Helper()
	var rows []struct {
		Place string
		Count int
	}
	table := map[string]string{"river.sql": "river_job", "pgboss.sql": "pgboss.job"}[file]
	if err := db.SelectContext(t.Context(), &rows, `select 'in the queue' as place, count(*) from `+table+`
		union all select entity_key, count(*) from prescient.future_job group by entity_key`); err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, row := range rows {
		found[row.Place] = row.Count
	}
	return found
}
