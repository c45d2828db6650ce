package testkit_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/testkit"
)

func TestRecoveredTellsOnceThatWhatLetStepsFireIsOver(t *testing.T) {
	t.Parallel()
	tests := map[string]script{
		"the clock moves": {
			"since: opened_at, done: closed_at, steps: [{after: 4h, event: late}, {after: 20h, event: lost}]",
			map[float64]string{5: "update cases set opened_at = $1 where id = 1", 6: "update cases set opened_at = $1 where id = 1", 7: "update cases set opened_at = '2026-01-01Z' where id = 2"},
			[]string{"late 1 4", "late 2 4", "recovered 1 5.25", "recovered 2 7.25", "lost 2 7.25", "late 1 10", "lost 1 26"},
		},
		"the clock moves twice within a slot, and another table decides about where": {
			"since: opened_at, done: closed_at, where: not exists (select from closed c where c.id = cases.id and c.at is null), steps: [{after: 4h, event: late}]",
			map[float64]string{5: "update cases set opened_at = $1 where id = 1", 5.1: "update cases set opened_at = $1 where id = 1"},
			[]string{"late 1 4", "late 2 4", "recovered 1 5.25", "late 1 9.25"},
		},
		"the clock moves, and back again within a slot": {
			"since: opened_at, done: closed_at, steps: [{after: 4h, event: late}]",
			map[float64]string{5: "update cases set opened_at = $1", 5.1: "update cases set opened_at = $1::timestamptz - interval '20 minutes' where id = 1"},
			[]string{"late 1 4", "late 2 4", "recovered 1 5.25", "recovered 2 5.25", "late 1 9", "late 2 9"},
		},
		"the clock moves twice within a slot, and another column changes": {
			"since: opened_at, done: closed_at, where: kind <> 'x', steps: [{after: 4h, event: late}]",
			map[float64]string{5: "update cases set opened_at = $1 where id = 1", 5.1: "update cases set opened_at = $1, kind = 'b' where id = 1"},
			[]string{"late 1 4", "late 2 4", "recovered 1 5.25", "late 1 9.25"},
		},
		"the clock moves, and it is done and open again within a slot": {
			"since: opened_at, done: closed_at, steps: [{after: 4h, event: late}]",
			map[float64]string{5: "update cases set opened_at = $1 where id = 1", 5.1: "update cases set closed_at = $1 where id = 1; update cases set closed_at = null where id = 1"},
			[]string{"late 1 4", "late 2 4", "recovered 1 5.25", "late 1 9"},
		},
		"it is done": {
			"since: opened_at, done: closed_at, steps: [{after: 4h, event: late}, {after: 20h, event: lost}]",
			map[float64]string{3: "update cases set closed_at = $1 where id = 1", 5: "update cases set closed_at = $1", 6: "update cases set closed_at = null", 7: "update cases set closed_at = $1"},
			[]string{"late 2 4", "recovered 2 5.25"},
		},
		"a step has the name of what follows in time": {
			"since: opened_at, done: closed_at, steps: [{after: 4h, name: met, event: late}]",
			map[float64]string{5: "update cases set closed_at = $1 where id = 1"},
			[]string{"late 1 4", "late 2 4", "recovered 1 5.25"},
		},
		"it is done and closed at once": {
			"since: opened_at, done: closed_at, cancel: at-once, steps: [{after: 4h, event: late}, {after: 20h, event: lost}]",
			map[float64]string{3: "update cases set closed_at = $1 where id = 1", 5: "update cases set closed_at = $1"},
			[]string{"late 2 4", "recovered 2 5.25"},
		},
		"it is done and closed at once, and written again": {
			"since: opened_at, done: closed_at, cancel: at-once, steps: [{after: 4h, event: late}, {after: 20h, event: lost}]",
			map[float64]string{5: "update cases set closed_at = $1", 5.1: "update cases set opened_at = $1 where id = 1; update cases set opened_at = null where id = 2"},
			[]string{"late 1 4", "late 2 4", "recovered 1 5.25", "recovered 2 5.25"},
		},
		"the clock has moved, and it is closed at once or the clock ends before a check": {
			"since: opened_at, done: closed_at, cancel: at-once, steps: [{after: 4h, event: late}, {after: 20h, event: lost}]",
			map[float64]string{5: "update cases set opened_at = $1", 5.1: "update cases set closed_at = $1 where id = 1; update cases set opened_at = null where id = 2"},
			[]string{"late 1 4", "late 2 4", "recovered 1 5.25", "recovered 2 5.25"},
		},
		"after the last step": {
			"since: opened_at, done: \"false\", steps: [{after: 4h, event: late}]",
			map[float64]string{50: "update cases set opened_at = $1 where id = 1", 51: "delete from cases where id = 2", 52: "update cases set opened_at = $1 where id = 1"},
			[]string{"late 1 4", "late 2 4", "recovered 1 50.25", "late 1 56"},
		},
		"the clock ends": {
			"since: opened_at, done: closed_at, where: kind <> 'x', steps: [{after: 4h, event: late}]",
			map[float64]string{5: "update cases set opened_at = null where id = 1", 6: "update cases set kind = 'x' where id = 2"},
			[]string{"late 1 4", "late 2 4", "recovered 1 5.25"},
		},
		"it ends by itself": {
			"since: opened_at, done: closed_at, steps: [{after: 4h, event: late}, {after: 200h, event: lost}]",
			map[float64]string{1: "update cases set closed_at = $1::timestamptz + interval '6 hours'"},
			[]string{"late 1 4", "late 2 4", "recovered 1 7", "recovered 2 7"},
		},
		"it ends by itself after the last step": {
			"since: opened_at, done: closed_at, steps: [{after: 4h, event: late}]",
			map[float64]string{5: "update cases set closed_at = $1::timestamptz + interval '9 hours'", 6: "update cases set closed_at = $1::timestamptz + interval '3 hours' where id = 1"},
			[]string{"late 1 4", "late 2 4", "recovered 1 9", "recovered 2 14"},
		},
		"it ends by itself before the next step": {
			"since: opened_at, done: closed_at, steps: [{after: 4h, event: late}, {after: 40h, event: lost}]",
			map[float64]string{5: "update cases set closed_at = $1::timestamptz + interval '9 hours' where id = 1", 6: "update cases set closed_at = $1::timestamptz + interval '90 hours' where id = 2", 7: "update cases set closed_at = null where id = 2"},
			[]string{"late 1 4", "late 2 4", "recovered 1 14", "lost 2 40"},
		},
		"it ends by itself and steps were left out": {
			"since: opened_at, done: closed_at, overdue: skip, steps: [{after: 4h, event: late}, {after: 12h, event: lost}]",
			map[float64]string{0.5: "insert into cases values (3, $1::timestamptz - interval '10 hours')", 3: "update cases set closed_at = $1 where id < 3", 5: "update cases set closed_at = $1::timestamptz + interval '1 hour' where id = 3"},
			[]string{"lost 3 2.5", "recovered 3 6"},
		},
		"it is done after it has left the conditions": {
			"since: opened_at, done: closed_at, where: kind <> 'x', steps: [{after: 4h, event: late}]",
			map[float64]string{5: "update cases set kind = 'x' where id = 1", 6: "update cases set closed_at = $1 where id = 1"},
			[]string{"late 1 4", "late 2 4", "recovered 1 6.25"},
		},
		"another table ends it": {
			"since: opened_at, done: exists (select from closed c where c.id = cases.id), recheck: 1h, steps: [{after: 4h, event: late}]",
			map[float64]string{3: "insert into closed values (1, $1)", 30: "insert into closed values (2, $1)", 31: "delete from closed"},
			[]string{"late 2 4", "recovered 2 31"},
		},
		"another table moves the clock": {
			"since: [opened_at, (select max(c.at) from closed c where c.id = cases.id)], done: closed_at, steps: [{after: 4h, event: late}, {after: 40h, event: lost}]",
			map[float64]string{5.1: "insert into closed values (1, $1)", 5.9: "insert into closed values (1, $1)", 50: "insert into closed values (2, $1)"},
			[]string{"late 1 4", "late 2 4", "recovered 1 5.25", "late 1 10", "lost 2 40", "lost 1 46", "recovered 2 50.25", "late 2 54"},
		},
		"repeated": {
			"since: opened_at, done: closed_at, steps: [{after: 4h, every: 1h, event: late}]",
			map[float64]string{6.5: "update cases set closed_at = $1 where id = 1", 4.5: "update cases set closed_at = $1 where id = 2"},
			[]string{"late 1 4", "late 2 4", "recovered 2 4.75", "late 1 5", "late 1 6", "recovered 1 6.75"},
		},
		"before": {
			"since: opened_at + interval '10 hours', done: closed_at, steps: [{before: 2h, event: soon}]",
			map[float64]string{9: "update cases set opened_at = $1 where id = 1"},
			[]string{"soon 1 8", "soon 2 8", "recovered 1 9.25", "soon 1 17"},
		},
	}
	play(t, "recovered: {event: recovered}", tests)
}

// script is a life of two cases, with what is told of them.
type script struct {
	rule       string             // its fields but name, table, key and what follows
	statements map[float64]string // at hours after the start, until hour 60; $1 is the instant
	want       []string           // events as "type key hour"
}

// play plays scripts, of which make test has a sample. follows is the field of the rule that follows its steps.
func play(t *testing.T, follows string, scripts map[string]script) {
	t.Helper()
	for n, name := range slices.Sorted(maps.Keys(scripts)) {
		if testing.Short() && n%4 > 0 {
			continue
		}
		test := scripts[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit := testkit.New(t, testkit.Config{Registry: registry()})
			start := kit.Now()
			kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz, kind text default 'a'); create table closed (id bigint, at timestamptz)")
			kit.Rules(rulesFile(t, "rules: [{name: r, table: public.cases, key: id, "+follows+", "+test.rule+"}]"))
			kit.DB.MustExec("insert into cases values (1, $1), (2, $1)", start)
			runScript(kit, start, test.statements)
			var got []string
			for _, e := range kit.Events() {
				got = append(got, fmt.Sprintf("%s %s %.4g", e.Type, strings.TrimPrefix(e.Subject, "cases/"), e.PublishedAt.Sub(start).Hours()))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// runScript runs statements at hours after the start, until hour 60. $1 is the instant.
func runScript(kit *testkit.Kit, start time.Time, script map[float64]string) {
	for quarter := range 4 * 60 {
		hour := float64(quarter) / 4
		kit.RunUntil(start.Add(time.Duration(quarter) * 15 * time.Minute))
		for _, at := range slices.Sorted(maps.Keys(script)) {
			if at < hour || at >= hour+0.25 {
				continue
			}
			kit.RunUntil(start.Add(time.Duration(at*60) * time.Minute))
			for one := range strings.SplitSeq(script[at], "; ") {
				if strings.Contains(one, "$1") {
					kit.DB.MustExec(one, kit.Now())
				} else {
					kit.DB.MustExec(one)
				}
			}
		}
	}
}

func TestTheEventOfRecoveredTellsOfTheStartThatIsOver(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry()})
	kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz)")
	kit.Rules(rulesFile(t, strings.Replace(cases, "    steps:", "    recovered: {event: case.fine}\n    payload: [closed_at]\n    steps:", 1)))
	opened := kit.Now()
	kit.DB.MustExec("insert into cases values (1, $1)", opened)
	kit.RunFor(4*day + time.Hour)
	kit.DB.MustExec("update cases set closed_at = $1", kit.Now())
	kit.RunFor(time.Hour)
	events := kit.Events()
	var data map[string]any
	if err := json.Unmarshal(events[len(events)-1].Data, &data); err != nil {
		t.Fatal(err)
	}
	at := func(t time.Time) string { return t.Format(time.RFC3339) }
	want := map[string]any{
		"rule": "case.open", "step": "recovered", "entity": "cases", "key": "1", "since": at(opened), "when": "done", "at": at(opened.Add(4*day + time.Hour)),
		"payload": map[string]any{"closed_at": strings.Replace(at(opened.Add(4*day+time.Hour)), "Z", "+00:00", 1)},
	}
	if diff := cmp.Diff(want, data); diff != "" || events[len(events)-1].Type != "case.fine" {
		t.Error(events[len(events)-1].Type, diff)
	}
}

// Steps that fired before are not followed by an event that nobody has waited for.
func TestRecoveredIsAboutStepsThatFireSinceTheRuleHasIt(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry()})
	kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz)")
	kit.Rules(rulesFile(t, cases))
	kit.DB.MustExec("insert into cases values (1, $1), (2, $1)", kit.Now())
	kit.RunFor(5 * day)
	kit.Rules(rulesFile(t, strings.Replace(cases, "    steps:", "    recovered: {event: case.fine}\n    steps:", 1)))
	kit.DB.MustExec("update cases set closed_at = $1 where id = 1", kit.Now())
	kit.RunFor(3 * day)
	kit.DB.MustExec("update cases set closed_at = $1 where id = 2", kit.Now())
	kit.RunFor(3 * day)
	var got []string
	for _, e := range kit.Events() {
		got = append(got, e.Type+" "+e.Subject)
	}
	want := []string{"case.late cases/1", "case.late cases/2", "case.lost cases/2", "case.fine cases/2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The transaction that ends a row may be open when its slot begins.
func TestATransactionThatEndsARowAfterItsSlotHasBegunIsTold(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry()})
	kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz)")
	kit.Rules(rulesFile(t, strings.Replace(cases, "    steps:", "    recovered: {event: case.fine}\n    steps:", 1)))
	opened := kit.Now()
	kit.DB.MustExec("insert into cases values (1, $1)", opened)
	kit.RunUntil(opened.Add(4*day - time.Minute))
	tx := kit.DB.MustBegin()
	tx.MustExec("update cases set closed_at = $1 where id = 1", kit.Now())
	kit.RunUntil(opened.Add(4*day + 20*time.Minute))
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	kit.RunUntil(opened.Add(4*day + time.Hour))
	if got := len(kit.Events()); got != 2 {
		t.Errorf("%d events: %v", got, fired(kit))
	}
}

// A row whose clock has ended is outside of a rule without where, too.
func TestWhySaysThatTheClockOfARowMayHaveEnded(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry()})
	kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz)")
	kit.Rules(rulesFile(t, "rules: [{name: r, table: public.cases, key: id, since: opened_at, done: closed_at, recovered: {event: over}, steps: [{after: 4h, event: late}]}]"))
	kit.DB.MustExec("insert into cases values (1, $1)", kit.Now())
	kit.RunFor(5 * time.Hour)
	kit.DB.MustExec("update cases set opened_at = null")
	kit.RunFor(time.Hour)
	timeline, err := admin.New(kit.Client).Timeline(t.Context(), kit.DB, jobs.Key{JobExec: "r", EntityName: "cases", EntityKey: "1"})
	if err != nil || len(timeline) == 0 {
		t.Fatal(timeline, err)
	}
	got := timeline[len(timeline)-1].Sentence(kit.Now(), "prescient")
	if want := ". Its row is outside of the rule: where is not true, or since is null"; !strings.Contains(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestARowThatIsLookedAtIsSoAlsoWhenAStepIsAdded(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry()})
	kit.DB.MustExec(`create table cases (id bigint primary key, opened_at timestamptz);
		create table closed (id bigint, at timestamptz); create index on closed (id)`)
	const file = `rules: [{name: r, table: public.cases, key: id, since: opened_at, recovered: {event: recovered}, recheck: 1h,
		done: exists (select from closed c where c.id = cases.id), steps: [{after: 4h, event: late}%s]}]`
	kit.Rules(rulesFile(t, fmt.Sprintf(file, "")))
	kit.DB.MustExec("insert into cases values (1, $1)", kit.Now())
	kit.RunFor(5 * time.Hour)
	kit.Rules(rulesFile(t, fmt.Sprintf(file, ", {after: 100h, event: lost}")))
	kit.RunFor(time.Hour)
	kit.DB.MustExec("insert into closed values (1, $1)", kit.Now())
	kit.RunFor(2 * time.Hour)
	var got []string
	for _, e := range kit.Events() {
		got = append(got, e.Type)
	}
	if diff := cmp.Diff([]string{"late", "recovered"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestARowIsLookedAtWhenItsLastStepIsTakenAway(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry()})
	kit.DB.MustExec(`create table cases (id bigint primary key, opened_at timestamptz);
		create table beat (id bigint, at timestamptz); create index on beat (id)`)
	const file = `rules: [{name: r, table: public.cases, key: id, done: "false",
		since: [opened_at, (select max(b.at) from beat b where b.id = cases.id)], steps: [{before: 1h, event: soon}%s]}]`
	kit.Rules(rulesFile(t, fmt.Sprintf(file, ", {after: 100h, event: lost}")))
	kit.DB.MustExec("insert into cases values (1, $1)", kit.Now().Add(2*time.Hour))
	kit.RunFor(5 * time.Hour)
	kit.Rules(rulesFile(t, fmt.Sprintf(file, "")))
	kit.DB.MustExec("insert into beat values (1, $1)", kit.Now().Add(3*time.Hour))
	kit.RunFor(3 * time.Hour)
	if events := kit.Events(); len(events) != 2 {
		t.Errorf("%d events, want soon before each start of the clock", len(events))
	}
}

func TestAColumnOfALookupDoesNotTakeAwayTheStepOfARowThatCameLate(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry()})
	kit.DB.MustExec(`create table cases (id bigint primary key, opened_at timestamptz, shop bigint);
		create table shop (id bigint primary key, live boolean); insert into shop values (1, true)`)
	kit.Rules(rulesFile(t, `rules: [{name: r, table: public.cases, key: id, since: opened_at, done: "false",
		where: (select s.live from shop s where s.id = cases.shop), steps: [{after: 1h, event: late}, {after: 100h, event: lost}]}]`))
	kit.DB.MustExec("insert into cases values (1, $1, 2)", kit.Now().Add(-5*time.Hour))
	kit.DB.MustExec("update cases set shop = 1")
	kit.RunFor(time.Hour)
	if events := kit.Events(); len(events) != 1 || events[0].Type != "late" {
		t.Errorf("events %v, want late", events)
	}
}
