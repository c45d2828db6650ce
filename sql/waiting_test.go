package sql_test

import (
	"database/sql"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// A page, a metric, a finding and the preview of a forget must not contradict each other.
func TestEventsThatWaitForAConsumerAreTheSameEverywhere(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, `
		insert into prescient.event_outbox (id, source, type)
		values ('1', 's', 'prescient.notify.ops'), ('2', 's', 'a'), ('3', 's', 'a'), ('4', 's', 'b'), ('5', 's', 'b'), ('6', 's', 'b');
		insert into prescient.event_consumer (name, mark, position, address, types)
		values
			('all', '0', 0, 'file:///all', null),
			('desk', '0', 0, 'file:///desk', '{a,z%}'),
			('none', '0', 0, 'file:///none', '{c}'),
			('reader', '0', 0, null, null),
			('receiver:ops', '0', 0, 'file:///ops', '{prescient.notify.ops}')`)
	want := map[string]int64{"all": 5, "desk": 2, "none": 0, "reader": 6, "receiver:ops": 1}
	destinations := map[string]int64{"all": 5, "desk": 2, "receiver:ops": 1}
	same := func(name string, stmt pg.Statement, column int, want map[string]int64) {
		t.Helper()
		got := map[string]int64{}
		_, err := pg.Collect(t.Context(), db, stmt.In(pgsql.DefaultSchema), nil, func(row *sql.Rows, _ *struct{}) error {
			var consumer string
			var n int64
			err := row.Scan(pick(t, row, map[int]any{0: &consumer, column: &n})...)
			got[consumer] = n
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	same("board_consumers", pg.BoardConsumers, 4, want)
	same("metrics_outbox", pg.MetricsOutbox, 1, want)
	same("event_behind", pg.EventBehind, 2, destinations)
	for name, n := range want {
		var left int64
		args := []any{name, 100}
		err := pg.One(t.Context(), db, pg.EventLeft.In(pgsql.DefaultSchema), args, &left, new(any), new(any))
		if err != nil || left != n {
			t.Errorf("event_left of %s: %d, %v, want %d", name, left, err, n)
		}
	}
}

// pick returns what to scan a row into: some columns, and not the others.
func pick(t *testing.T, row *sql.Rows, columns map[int]any) []any {
	t.Helper()
	names, err := row.Columns()
	if err != nil {
		t.Fatal(err)
	}
	into := make([]any, len(names))
	for i := range into {
		into[i] = columns[i]
		if into[i] == nil {
			into[i] = new(any)
		}
	}
	return into
}

// Counting stops at 10,000 events, of whatever type.
func TestAConsumerOfFewTypesHasAtLeastTheEventsThatWereCounted(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, `
		insert into prescient.event_consumer (name, mark, position, address, types) values ('desk', '0', 0, 'file:///desk', '{a}');
		insert into prescient.event_outbox (id, source, type)
		select n, 's', case when n = 7 then 'a' else 'b' end from generate_series(1, 10000) as n`)
	wants := func(n int64, stopped bool) {
		t.Helper()
		var got int64
		var is bool
		_, err := pg.Collect(t.Context(), db, pg.BoardConsumers.In(pgsql.DefaultSchema), nil, func(row *sql.Rows, _ *struct{}) error {
			return row.Scan(pick(t, row, map[int]any{4: &got, 5: &is})...)
		})
		if err != nil || got != n || is != stopped {
			t.Errorf("%d, stopped: %t, %v; want %d, %t", got, is, err, n, stopped)
		}
	}
	wants(1, false)
	exec(t, db, `insert into prescient.event_outbox (id, source, type) values ('10001', 's', 'b'), ('10002', 's', 'a')`)
	wants(1, true)
	exec(t, db, "update prescient.event_consumer set types = null")
	wants(10_000, true)
}
