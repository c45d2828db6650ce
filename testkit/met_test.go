package testkit_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/testkit"
)

func TestMetTellsOnceThatARowIsDoneInTime(t *testing.T) {
	t.Parallel()
	tests := map[string]script{
		"before the first step": {
			"since: opened_at, done: closed_at, steps: [{after: 4h, event: late}, {after: 20h, event: lost}]",
			map[float64]string{2: "update cases set closed_at = $1 where id = 1"},
			[]string{"met 1 2.25", "late 2 4", "lost 2 20"},
		},
		"after a step": {
			"since: opened_at, done: closed_at, recovered: {event: recovered}, steps: [{after: 4h, event: late}, {after: 20h, event: lost}]",
			map[float64]string{2: "update cases set closed_at = $1 where id = 1", 5: "update cases set closed_at = $1 where id = 2"},
			[]string{"met 1 2.25", "late 2 4", "recovered 2 5.25"},
		},
		"a condition": {
			"since: opened_at, done: kind = 'x', steps: [{after: 4h, event: late}, {after: 9h, event: lost}]",
			map[float64]string{3.9: "update cases set kind = 'x' where id = 1", 5: "update cases set kind = 'x' where id = 2"},
			[]string{"met 1 4", "late 2 4"},
		},
		"done twice": {
			"since: opened_at, done: closed_at, recovered: {event: recovered}, steps: [{after: 4h, event: late}, {after: 9h, event: lost}]",
			map[float64]string{1: "update cases set closed_at = $1", 2: "update cases set closed_at = null", 3: "update cases set closed_at = $1 where id = 1", 5: "update cases set closed_at = $1 where id = 2"},
			[]string{"met 1 1.25", "met 2 1.25", "late 2 4", "recovered 2 5.25"},
		},
		"each start of the clock": {
			"since: opened_at, done: closed_at, steps: [{after: 4h, event: late}]",
			map[float64]string{1: "update cases set closed_at = $1 where id = 1", 5: "update cases set closed_at = null, opened_at = $1 where id = 1", 6: "update cases set closed_at = $1 where id = 1"},
			[]string{"met 1 1.25", "late 2 4", "met 1 6.25"},
		},
		"an instant to come": {
			"since: opened_at, done: closed_at, steps: [{after: 4h, event: late}, {after: 30h, event: lost}]",
			map[float64]string{1: "update cases set closed_at = $1::timestamptz + interval '2 hours' where id = 1", 2: "update cases set closed_at = $1::timestamptz + interval '5 hours' where id = 2", 2.5: "insert into cases values (3, $1, $1::timestamptz + interval '1 hour')"},
			[]string{"met 1 3", "met 3 3.5", "late 2 4"},
		},
		"a condition ends it before its instant": {
			"since: opened_at, done: [kind = 'x', closed_at], steps: [{after: 4h, event: late}]",
			map[float64]string{0.5: "update cases set closed_at = $1::timestamptz + interval '10 hours' where id = 1", 1: "update cases set kind = 'x' where id = 1"},
			[]string{"met 1 1.25", "late 2 4"},
		},
		"a condition ends it, and its instant is in the slot of the check": {
			"since: opened_at, done: [kind = 'x', closed_at], steps: [{after: 4h, event: late}]",
			map[float64]string{3.8: "update cases set kind = 'x', closed_at = $1::timestamptz + interval '18 minutes' where id = 1"},
			[]string{"met 1 4", "late 2 4"},
		},
		"an instant before year 0, which JSON does not know": {
			"since: opened_at, done: closed_at, steps: [{after: 4h, event: late}]",
			map[float64]string{2: "update cases set closed_at = '4713-01-01 BC' where id = 1"},
			[]string{"met 1 2.25", "late 2 4"},
		},
		"a row that is reopened with an instant to come": {
			"since: opened_at, done: closed_at, where: kind = 'a', steps: [{after: 4h, event: late}]",
			map[float64]string{0.1: "update cases set closed_at = $1, kind = 'x' where id = 1", 0.5: "update cases set kind = 'a', closed_at = $1::timestamptz + interval '1 hour' where id = 1"},
			[]string{"met 1 1.5", "late 2 4"},
		},
		"a row that comes done": {
			"since: opened_at, done: closed_at, steps: [{after: 4h, event: late}]",
			map[float64]string{1: "insert into cases values (3, $1, $1)", 2: "update cases set opened_at = null where id = 1", 2.5: "update cases set opened_at = $1, closed_at = $1 where id = 1"},
			[]string{"met 1 2.75", "late 2 4"},
		},
		"a row that comes under the conditions, and is done": {
			"since: opened_at, done: closed_at, where: kind <> 'a', recovered: {event: recovered}, steps: [{after: 4h, event: late}]",
			map[float64]string{1: "update cases set kind = 'b', closed_at = $1 where id = 1", 5: "update cases set kind = 'b', closed_at = $1 where id = 2"},
			[]string{"met 1 1.25"},
		},
		"a row that is gone, or outside of where": {
			"since: opened_at, done: closed_at, where: kind <> 'x', steps: [{after: 4h, event: late}]",
			map[float64]string{1: "delete from cases where id = 1", 2: "update cases set kind = 'x', closed_at = $1 where id = 2"},
			nil,
		},
		"a step was left out": {
			"since: opened_at, done: kind = 'x', overdue: skip, steps: [{after: 4h, event: late}]",
			map[float64]string{0.5: "insert into cases values (3, $1::timestamptz - interval '10 hours'), (4, $1::timestamptz - interval '10 hours')", 0.6: "update cases set kind = 'x' where id = 3", 3: "update cases set kind = 'x'"},
			[]string{"met 1 3.25", "met 2 3.25"},
		},
		"a step had passed when the row came": {
			"since: opened_at, done: kind = 'x', overdue: fire, steps: [{after: 4h, event: late}, {after: 50h, event: lost}]",
			map[float64]string{0.5: "insert into cases values (3, $1::timestamptz - interval '10 hours')", 0.6: "update cases set kind = 'x' where id = 3", 5: "update cases set kind = 'x'"},
			[]string{"late 1 4", "late 2 4"},
		},
		"a step was left out, and another is to come": {
			"since: opened_at, done: closed_at, overdue: skip, steps: [{after: 4h, event: late}, {after: 40h, event: lost}]",
			map[float64]string{0.5: "insert into cases values (3, $1::timestamptz - interval '10 hours', $1)", 0.6: "update cases set closed_at = null where id = 3", 3: "update cases set closed_at = $1"},
			[]string{"met 1 3.25", "met 2 3.25"},
		},
		"the clock moves back as it is done": {
			"since: opened_at, done: closed_at, steps: [{after: 4h, event: late}]",
			map[float64]string{1: "update cases set closed_at = $1, opened_at = $1::timestamptz - interval '9 hours' where id = 1", 2: "update cases set closed_at = $1, opened_at = $1::timestamptz - interval '1 hour' where id = 2"},
			[]string{"met 2 2.25"},
		},
		"another table ends it": {
			"since: opened_at, done: exists (select from closed c where c.id = cases.id), steps: [{after: 4h, event: late}]",
			map[float64]string{3: "insert into closed values (1, $1)"},
			[]string{"met 1 4", "late 2 4"},
		},
		"a table of also ends it": {
			"since: opened_at, done: exists (select from closed c where c.id = cases.id), also: {table: public.closed, key: id}, steps: [{after: 4h, event: late}]",
			map[float64]string{3: "insert into closed values (1, $1)"},
			[]string{"met 1 3.25", "late 2 4"},
		},
		"before": {
			"since: opened_at + interval '10 hours', done: closed_at, steps: [{before: 2h, event: soon}]",
			map[float64]string{7: "update cases set closed_at = $1 where id = 1", 9: "update cases set closed_at = $1 where id = 2"},
			[]string{"met 1 7.25", "soon 2 8"},
		},
		"a row without a step": {
			"since: opened_at, done: closed_at, also: {table: public.closed, key: id}, where: exists (select from closed c where c.id = cases.id), steps: [{after: {interval: null::interval}, event: late}]",
			map[float64]string{1: "insert into closed values (1, $1)", 2: "update cases set closed_at = $1; insert into closed values (1, $1)"},
			nil,
		},
		"while it is paused": {
			"since: opened_at, done: closed_at, pause: kind = 'x', steps: [{after: 4h, event: late}]",
			map[float64]string{1: "update cases set kind = 'x'", 9: "update cases set closed_at = $1 where id = 1", 10: "update cases set closed_at = $1, kind = 'a' where id = 2"},
			[]string{"met 1 9.25", "met 2 10.25"},
		},
		"another table ends it while it is paused": {
			"since: opened_at, done: exists (select from closed c where c.id = cases.id), pause: kind = 'x', steps: [{after: 4h, event: late}]",
			map[float64]string{1: "update cases set kind = 'x'", 3: "insert into closed values (1, $1)", 26: "insert into closed values (2, $1)"},
			[]string{"met 1 25.25", "met 2 49.25"},
		},
		"another table ends a row that came paused": {
			"since: opened_at, done: exists (select from closed c where c.id = cases.id), where: kind <> 'z', pause: kind = 'x', steps: [{after: 50h, event: late}]",
			map[float64]string{0.5: "update cases set kind = 'z'", 0.9: "update cases set kind = 'x' where id = 1", 1: "insert into cases values (3, $1, null, 'x')", 3: "insert into closed values (1, $1), (3, $1)"},
			[]string{"met 1 25", "met 3 25.25"},
		},
		"another table ends a row whose clock starts again while it is paused": {
			"since: opened_at, done: exists (select from closed c where c.id = cases.id), pause: kind = 'x', steps: [{after: 50h, event: late}]",
			map[float64]string{1: "update cases set kind = 'x'", 2: "update cases set opened_at = $1 where id = 1", 2.5: "update cases set opened_at = $1::timestamptz - interval '30 hours' where id = 2", 3: "insert into closed values (1, $1), (2, $1)"},
			[]string{"met 1 26.25", "met 2 26.75"},
		},
		"the clock moves back before it is done": {
			"since: opened_at, done: closed_at, steps: [{after: 30h, event: late}]",
			map[float64]string{1: "update cases set opened_at = opened_at - interval '20 hours' where id = 1", 5: "update cases set closed_at = $1 where id = 1"},
			[]string{"met 1 5.25", "late 2 30"},
		},
		"the clock starts as it is done": {
			"since: [opened_at, changed(kind)], done: kind = 'x', steps: [{before: 2h, event: soon}, {after: 30h, event: late}]",
			map[float64]string{10: "update cases set kind = 'x' where id = 1", 11: "update cases set opened_at = $1::timestamptz + interval '9 hours'", 12: "update cases set kind = 'x' where id = 2"},
			[]string{"soon 1 0.25", "soon 2 0.25", "met 2 12.25"},
		},
		"a step before an instant passed while it was paused": {
			"since: opened_at + interval '10 hours', done: kind = 'y', pause: kind = 'x', steps: [{before: 8h, event: soon}, {after: 9h, event: late}]",
			map[float64]string{1: "update cases set kind = 'x'", 5: "update cases set opened_at = $1::timestamptz - interval '4 hours' where id = 1", 9: "update cases set kind = 'y'"},
			[]string{"met 2 9.25"},
		},
		"with a lookup, and looked at again": {
			"since: [opened_at, (select max(c.at) from closed c where c.id = cases.id)], done: closed_at, steps: [{after: 4h, event: late}]",
			map[float64]string{2: "insert into closed values (1, $1)", 5: "update cases set closed_at = $1"},
			[]string{"late 2 4", "met 1 5.25"},
		},
	}
	play(t, "met: {event: met}", tests)
}

func TestWhatFollowsHasTheDataOfAStep(t *testing.T) {
	t.Parallel()
	jobsOf, payloads := registry(), make(chan json.RawMessage, 2)
	jobsOf.Register("case.ask", jobs.Row(func(_ context.Context, row jobs.FutureJob) (*time.Time, error) {
		payloads <- row.Payload
		return nil, nil
	}))
	kit := testkit.New(t, testkit.Config{Registry: jobsOf})
	kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz)")
	kit.Rules(rulesFile(t, `rules: [{name: r, table: public.cases, key: id, since: opened_at, done: closed_at, payload: [id],
		met: {event: met, job: case.ask, notify: ops}, steps: [{after: 4h, event: late}]}]`))
	opened := kit.Now()
	kit.DB.MustExec("insert into cases values (1, $1)", opened)
	kit.RunFor(time.Hour)
	kit.DB.MustExec("update cases set closed_at = $1", kit.Now())
	kit.RunFor(time.Hour)
	at := func(t time.Time) string { return t.Format(time.RFC3339) }
	want := map[string]any{
		"rule": "r", "step": "met", "entity": "cases", "key": "1", "since": at(opened), "when": "done",
		"at": at(opened.Add(time.Hour)), "payload": map[string]any{"id": 1.0},
	}
	var types []string
	for _, e := range kit.Events() {
		var data map[string]any
		if err := json.Unmarshal(e.Data, &data); err != nil {
			t.Fatal(err)
		}
		types = append(types, e.Type)
		if text, ok := data["text"].(string); ok {
			const told = "r: cases 1, which had waited since "
			if !strings.HasPrefix(text, told) || !strings.Contains(text, " is done in time, at ") {
				t.Errorf("the message is %q", text)
			}
			continue
		}
		if diff := cmp.Diff(want, data); diff != "" {
			t.Error(diff)
		}
	}
	if diff := cmp.Diff([]string{"met", "prescient.notify.ops"}, types); diff != "" {
		t.Error(diff)
	}
	if len(payloads) != 1 {
		t.Fatalf("the job ran %d times, want once", len(payloads))
	}
	var data map[string]any
	if err := json.Unmarshal(<-payloads, &data); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, data); diff != "" {
		t.Error(diff)
	}
}

func TestThereIsNoAllClearForARowThatWasMetIfTheRuleHasMetNoMore(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry()})
	kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz)")
	rules := func(met string) {
		kit.Rules(rulesFile(t, "rules: [{name: r, table: public.cases, key: id, since: opened_at, done: closed_at, "+met+
			"recovered: {event: recovered}, steps: [{after: 4h, event: late}]}]"))
	}
	rules("met: {event: met}, ")
	kit.DB.MustExec("insert into cases values (1, $1)", kit.Now())
	kit.RunFor(time.Hour)
	kit.DB.MustExec("update cases set closed_at = $1", kit.Now())
	kit.RunFor(time.Hour)
	rules("")
	kit.DB.MustExec("update cases set closed_at = null")
	kit.RunFor(time.Hour)
	kit.DB.MustExec("update cases set closed_at = $1", kit.Now())
	kit.RunFor(10 * time.Hour)
	var types []string
	for _, e := range kit.Events() {
		types = append(types, e.Type)
	}
	if diff := cmp.Diff([]string{"met"}, types); diff != "" {
		t.Error(diff)
	}
}
