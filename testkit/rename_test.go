package testkit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/testkit"
)

// Half of the rows have fired their first step, and wait for their second.
func TestARenumberingSendsNoEventAgain(t *testing.T) {
	t.Parallel()
	const rows = 300
	kit := testkit.New(t, testkit.Config{Registry: registry()})
	kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz)")
	kit.Rules(rulesFile(t, cases))
	insert := func(from, to int) {
		kit.DB.MustExec("insert into cases select id, $1 from generate_series($2::bigint, $3::bigint) as id", kit.Now(), from, to)
	}
	insert(1, rows/2)
	kit.RunFor(5 * day)
	insert(rows/2+1, rows)
	var want []string
	for id := 1; id <= rows; id++ {
		first := id
		if id > rows/2 {
			first += 3000
		}
		want = append(want, fmt.Sprintf("case.late %d", first), fmt.Sprintf("case.lost %d", id+3000))
	}
	for range 3 {
		kit.DB.MustExec("update cases set id = id + 1000")
	}
	kit.RunAll()
	kit.DB.MustExec("update cases set id = id - 3000")
	kit.RunFor(20 * day)
	var got []string
	for _, e := range kit.Events() {
		got = append(got, e.Type+" "+strings.TrimPrefix(e.Subject, "cases/"))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d events, want %d:\n%q", len(got), len(want), got)
	}
}

func TestAWiderTypeOfTheKeySendsNoEventAgain(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry()})
	kit.DB.MustExec("create table cases (id int primary key, opened_at timestamptz, closed_at timestamptz)")
	file := rulesFile(t, cases)
	kit.Rules(file)
	kit.DB.MustExec("insert into cases values (1, $1)", kit.Now())
	kit.RunFor(5 * day)
	var trigger string
	if err := kit.DB.Get(&trigger, "select tgname from pg_trigger where tgname like 'prescient%update'"); err != nil {
		t.Fatal(err)
	}
	kit.DB.MustExec("drop trigger " + trigger + " on cases; drop function prescient_rules." + strings.TrimSuffix(trigger, "update") +
		"row; alter table cases alter column id type bigint")
	kit.Rules(file)
	kit.DB.MustExec("insert into cases values (3000000000, $1)", kit.Now())
	kit.RunFor(20 * day)
	var got []string
	for _, e := range kit.Events() {
		got = append(got, e.Type+" "+strings.TrimPrefix(e.Subject, "cases/"))
	}
	slices.Sort(got)
	want := []string{"case.late 1", "case.late 3000000000", "case.lost 1", "case.lost 3000000000"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheStoryOfARowGoesOnUnderItsKeyAfter(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry()})
	kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz)")
	kit.Rules(rulesFile(t, cases))
	kit.DB.MustExec("insert into cases values (1, $1)", kit.Now())
	kit.RunFor(5 * day)
	kit.DB.MustExec("update cases set id = 2")
	kit.RunFor(5 * day)
	for key, want := range map[string]string{
		"2": "enqueued, next, renamed from 1, done, 2 steps fired", "1": "enqueued, cancelled to 2, 0 steps fired",
	} {
		timeline, err := admin.New(kit.Client).Timeline(t.Context(), kit.DB, jobs.Key{EntityName: "cases", EntityKey: key})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		fired := 0
		for _, e := range timeline {
			fired += len(e.Fired)
			what := e.What
			if e.KeyBefore != "" {
				what += " from " + e.KeyBefore
			}
			if e.KeyAfter != "" {
				what += " to " + e.KeyAfter
			}
			got = append(got, what)
		}
		if got := fmt.Sprintf("%s, %d steps fired", strings.Join(got, ", "), fired); got != want {
			t.Errorf("key %s: %s, want %s", key, got, want)
		}
	}
}
