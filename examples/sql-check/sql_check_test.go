// Package sqlcheck tests the example as it is: its tables, its configuration, and the stock binary.
package sqlcheck

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/cmd"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// asBinary makes the test binary be prescient.
const asBinary = "SQL_CHECK_TEST_AS_BINARY"

func TestMain(m *testing.M) {
	if os.Getenv(asBinary) != "" {
		cmd.Main(jobs.NewRegistry())
		return
	}
	os.Exit(pgtest.Main(m))
}

// event has the fields of an event that this test looks at.
type event struct {
	Source, Type, Subject string
	Data                  data
}

type data struct {
	Order           int
	Customer, Level string
}

func TestAnOrderThatIsNotShippedIsAnEventAndThenAnother(t *testing.T) {
	url := pgtest.URL(t)
	db, err := pgsql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	tables, err := os.ReadFile("tables.sql")
	if err != nil {
		t.Fatal(err)
	}
	pgtest.DropRoles(t, db, "order_")
	db.MustExec(string(tables))
	run := func(args ...string) (string, error) {
		c := exec.CommandContext(t.Context(), os.Args[0], args...)
		c.Env = append(os.Environ(), asBinary+"=1", "PRESCIENT_DATABASE_URL="+url, "PRESCIENT_CONFIG=prescient.yaml", "PRESCIENT_EVENTS_DESTINATION=stdout:")
		var stdout, stderr bytes.Buffer
		c.Stdout, c.Stderr = &stdout, &stderr
		err := c.Run()
		if err != nil {
			err = fmt.Errorf("prescient %s: %w\n%s%s", strings.Join(args, " "), err, &stdout, &stderr)
		}
		return stdout.String(), err
	}
	prescient := func(args ...string) string {
		t.Helper()
		out, err := run(args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	out, err := run("doctor") // which ends with 3: autovacuum is off on the server of the tests
	if !strings.Contains(out, "order.unshipped, on the database of the jobs: its query can run") {
		t.Errorf("doctor has not tried the query: %v", err)
	}

	db.MustExec(`insert into public.orders (customer, placed_at) select c, now() - interval '48 hours' from unnest('{ada,bob}'::text[]) c`)
	db.MustExec(`update public.orders set shipped_at = now() where customer = 'bob'`)
	db.MustExec(`create role order_writer; grant insert on public.orders to order_writer; begin; set local role order_writer;
		insert into public.orders (customer, placed_at) values ('eve', now() - interval '121 hours'); commit`)
	want := []event{
		{"https://shop.example.com/orders", "com.example.order.unshipped", "1", data{1, "ada", "primary"}},
		{"https://shop.example.com/orders", "com.example.order.unshipped", "3", data{3, "eve", "final"}},
	}
	// The slot that they wait for has come, an hour ago.
	due := time.Now().UTC().Truncate(time.Hour).Add(-time.Hour)
	db.MustExec(`update prescient.setting set since = $1`, due)
	db.MustExec(`update prescient.future_job set next_check_at = $1`, due)
	diff(t, want, events(t, prescient("run", "--slot", due.Format(time.RFC3339))))

	// Ada's order is checked again, three days later, and then never again.
	db.MustExec(`update public.orders set placed_at = placed_at - interval '72 hours'`)
	due = due.Add(15 * time.Minute)
	if moved, err := db.MustExec(`update prescient.future_job set next_check_at = $1`, due).RowsAffected(); moved != 1 || err != nil {
		t.Errorf("%d orders wait for another check, want ada's (%v)", moved, err)
	}
	want = []event{{"https://shop.example.com/orders", "com.example.order.unshipped", "1", data{1, "ada", "final"}}}
	diff(t, want, events(t, prescient("run", "--slot", due.Format(time.RFC3339))))
	var outcomes string
	if err := db.GetContext(t.Context(), &outcomes, `select string_agg(entity_key || ' ' || outcome, ', ' order by entity_key) from prescient.future_job_history`); err != nil {
		t.Fatal(err)
	}
	diff(t, "1 done, 2 done, 3 done", outcomes)
}

// events reads JSON lines, in the order of their subjects: they may be published in any.
func events(t *testing.T, lines string) (list []event) {
	t.Helper()
	for line := range strings.Lines(lines) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, e)
	}
	if len(list) == 2 && list[0].Subject > list[1].Subject {
		list[0], list[1] = list[1], list[0]
	}
	return list
}

func diff(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
