package testkit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/backtest"
	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/sql/pgtest"
	"github.com/prescient-go/prescient/testkit"
)

// rulesFile writes a file of rules.
func rulesFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const cases = `rules:
  - name: case.open
    table: public.cases
    key: id
    since: opened_at
    done: closed_at
    steps:
      - {after: 4d, event: case.late}
      - {after: 7d, event: case.lost}
`

// fired returns the events of a kit, as texts.
func fired(kit *testkit.Kit) (list []string) {
	for _, e := range kit.Events() {
		list = append(list, e.Type+" "+strings.TrimPrefix(e.Subject, "cases/")+" "+e.Time.Format("01-02 15:04"))
	}
	return list
}

// The case is closed on day 3 and opened again on day 5. The step of day 4 has passed meanwhile.
func TestARuleRunsInVirtualTime(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]time.Time{
		"in the past": time.Date(1996, time.July, 1, 9, 0, 0, 0, time.UTC), "in the future": testkit.Start(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit := testkit.New(t, testkit.Config{Registry: registry(), Start: start})
			kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz)")
			kit.Rules(rulesFile(t, cases))
			kit.DB.MustExec("insert into cases select id, $1 from generate_series(1, 3) as id", kit.Now())
			kit.RunFor(3 * day)
			kit.DB.MustExec("update cases set closed_at = $1 where id in (1, 2)", kit.Now())
			kit.RunFor(2 * day)
			kit.DB.MustExec("update cases set closed_at = null where id = 1")
			key := jobs.Key{JobExec: "case.open", EntityName: "cases", EntityKey: "1"}
			kit.RequireWaiting(key, start.Add(7*day))
			kit.RunAll()
			kit.RequireEnded(key, jobs.OutcomeDone)
			late, lost := start.Add(4*day).Format(" 01-02 15:04"), start.Add(7*day).Format(" 01-02 15:04")
			got := fired(kit)
			slices.Sort(got) // the events of one slot are in no order
			if diff := cmp.Diff([]string{"case.late 3" + late, "case.lost 1" + lost, "case.lost 3" + lost}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The end of case 2 cannot be recorded at first, so the transaction that has published its event is rolled back.
func TestAnEventExistsIfAndOnlyIfItsTransactionCommits(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it has no triggers on the tables of a distributed schema")
	for name, config := range map[string]testkit.Config{
		"a database of the kit": {}, "a database of the test": {DB: pgtest.New(t)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config.Registry = registry()
			kit := testkit.New(t, config)
			kit.DB.MustExec(`
				create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz);
				create function refuse() returns trigger language plpgsql as $$ begin raise 'not yet'; end $$;
				create trigger refuse before insert on prescient.future_job_history
					for each row when (new.entity_key = '2') execute function refuse()`)
			if list := kit.Events(); len(list) != 0 {
				t.Errorf("events without a rule: %v", list)
			}
			kit.Rules(rulesFile(t, strings.Replace(cases, "      - {after: 4d, event: case.late}\n", "", 1)))
			kit.DB.MustExec("insert into cases select id, $1 from generate_series(1, 3) as id", kit.Now())
			lost := kit.Now().Add(7 * day)
			want := func(ids ...int) {
				t.Helper()
				var list []string
				for _, id := range ids {
					list = append(list, fmt.Sprintf("case.lost %d %s", id, lost.Format("01-02 15:04")))
				}
				got := fired(kit)
				slices.Sort(got)
				if diff := cmp.Diff(list, got); diff != "" {
					t.Error(diff)
				}
			}
			kit.RunUntil(lost)
			want(1, 3)
			kit.DB.MustExec("drop trigger refuse on prescient.future_job_history")
			kit.RunAll()
			want(1, 2, 3)
		})
	}
}

// The recipe of the cookbook for a hold that the table tells, with its statements.
func TestARowIsHeldAsTheCookbookSays(t *testing.T) {
	t.Parallel()
	_, recipe, _ := strings.Cut(read(t, "../docs/rules-cookbook.md"), "## A hold that the table tells\n")
	block := func(kind string) string {
		_, rest, begins := strings.Cut(recipe, "```"+kind+"\n")
		text, _, ends := strings.Cut(rest, "```")
		if !begins || !ends {
			t.Fatalf("the recipe has no block of %s", kind)
		}
		return text
	}
	hold, goOn, _ := strings.Cut(strings.TrimSpace(block("sql")), "\n")
	kit := testkit.New(t, testkit.Config{Registry: registry()})
	kit.DB.MustExec(pgtest.CreateSchema("shop"))
	kit.DB.MustExec(`create table shop.request (id bigint primary key, created_at timestamptz not null, answered_at timestamptz,
			held_since timestamptz, held_for interval not null default '0', late_at timestamptz)`)
	kit.Rules(rulesFile(t, block("yaml")))
	at := func(statement string, id int) {
		t.Helper()
		now := fmt.Sprintf("timestamptz '%s'", kit.Now().Format(time.RFC3339))
		text, _, _ := strings.Cut(strings.ReplaceAll(statement, "now()", now), ";")
		kit.DB.MustExec(strings.ReplaceAll(text, "$1", fmt.Sprint(id)))
	}
	start := kit.Now()
	kit.DB.MustExec("insert into shop.request (id, created_at) select id, $1 from generate_series(1, 4) as id", start)
	kit.RunFor(2 * time.Hour)
	at(hold, 2)
	at(hold, 3)
	at(hold, 4)
	kit.RunFor(3 * time.Hour)
	at(goOn, 2)
	at(goOn, 3)
	kit.RunFor(4 * time.Hour)
	at(hold, 3) // after 6 of its 8 hours
	kit.RunFor(20 * time.Hour)
	at(goOn, 3)
	at(hold, 1) // it was late already
	kit.RunFor(time.Hour)
	at(goOn, 1)
	kit.RunAll()
	want := []string{}
	for i, after := range []time.Duration{8 * time.Hour, 11 * time.Hour, 31 * time.Hour} {
		want = append(want, fmt.Sprintf("request.late request/%d %s", i+1, start.Add(after).Format("01-02 15:04")))
	}
	if diff := cmp.Diff(want, fired(kit)); diff != "" {
		t.Error(diff)
	}
}

func TestAFileOfRulesThatIsWrongFailsTheTest(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry()})
	for want, text := range map[string]string{
		"rules.yaml: line 1: rules: want a list, not \"none\"":                              "rules: none",
		"rules.yaml: line 2: rule remind: name: a job of this binary has the name":          strings.Replace(cases, "case.open", "remind", 1),
		"rules.yaml: line 3: rule case.open: table: there is no table public.cases in this": cases,
	} {
		if got := fatal(t, kit, func(k *testkit.Kit) { k.Rules(rulesFile(t, text)) }); !strings.Contains(got, want) {
			t.Errorf("it fails with %q, want %q", got, want)
		}
	}
}

const reminders = `calendars:
  office: {hours: "mon-fri 09:00-17:00"}
rules:
  - name: case.open
    table: public.cases
    key: id
    since: opened_at
    done: closed_at
    timezone: Europe/Berlin
    steps:
      - {before: 1w at 09:00, event: soon}
      - {after: 1d, every: 2d, event: reminder}
      - {after: 1 business day, every: 1 business day, times: 2, calendar: office, event: call}
`

func TestAStepRepeatsUntilTheRowIsDone(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry(), Start: time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC)}) // a Monday
	kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz)")
	kit.Rules(rulesFile(t, reminders))
	kit.DB.MustExec("insert into cases values (1, $1), (2, $2)", kit.Now(), kit.Now().AddDate(0, 0, 14))
	kit.RunFor(4 * day)
	kit.Clock.Set(kit.Now().Add(5*day + time.Hour)) // nothing runs
	kit.RunDue()
	kit.RunDue()
	kit.RunFor(2 * day)
	kit.DB.MustExec("update cases set closed_at = $1 where id = 1", kit.Now())
	kit.RunFor(10 * day)
	kit.DB.MustExec("update cases set closed_at = null where id = 1")
	kit.RunFor(4 * day)
	kit.DB.MustExec("delete from cases")
	kit.RunAll()
	var left []string
	timeline, err := admin.New(kit.Client).Timeline(t.Context(), kit.DB, jobs.Key{EntityName: "cases", EntityKey: "1"})
	for _, e := range timeline {
		for _, f := range e.Fired {
			if f.Step == "reminder" {
				left = append(left, fmt.Sprintf("#%d %d", f.Number, f.LeftOut))
			}
		}
	}
	if diff := cmp.Diff([]string{"#13 7"}, left); diff != "" || err != nil {
		t.Error(err, diff)
	}
	numbers := map[string]bool{}
	for _, e := range kit.Events() {
		var data struct{ Number int }
		if err := json.Unmarshal(e.Data, &data); err != nil || (data.Number > 0) != (e.Type != "soon") || numbers[e.ID] {
			t.Errorf("%+v, %v", e, err)
		}
		numbers[e.ID] = true
	}
	want := []string{
		"soon 1 02-24 08:00", "reminder 1 03-03 09:00", "call 1 03-03 09:00", "call 1 03-04 09:00", "reminder 1 03-05 09:00",
		// #3 and #4 are left out.
		"reminder 1 03-11 09:00", "reminder 1 03-13 09:00",
		// It is open again from March 23, 09:00.
		"reminder 1 03-25 09:00", "reminder 1 03-27 09:00",
		"soon 2 03-10 08:00", "call 2 03-17 09:00", "call 2 03-18 09:00", "reminder 2 03-17 09:00", "reminder 2 03-19 09:00",
		"reminder 2 03-21 09:00", "reminder 2 03-23 09:00", "reminder 2 03-25 09:00", "reminder 2 03-27 09:00",
	}
	got := fired(kit)
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestARunOfTheKitKnowsTheRulesThatASubtestHasApplied(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{})
	kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz)")
	t.Run("apply", func(t *testing.T) { kit.For(t).Rules(rulesFile(t, cases)) })
	kit.DB.MustExec("insert into cases values (1, $1)", kit.Now())
	kit.RunFor(5 * day)
	if diff := cmp.Diff([]string{"case.late 1 01-08 09:00"}, fired(kit)); diff != "" {
		t.Error(diff)
	}
}

// A run resets the settings of a session whose transaction it has rolled back.
func TestEachSessionKnowsTheClockAfterACheckHasFailed(t *testing.T) {
	t.Parallel()
	r := jobs.NewRegistry()
	r.Register("fail", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) {
		return nil, errors.New("it fails")
	}))
	kit := testkit.New(t, testkit.Config{Registry: r})
	kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz)")
	kit.Rules(rulesFile(t, cases))
	kit.Enqueue(order("fail"), kit.Now())
	kit.RunFor(15 * time.Minute)
	for range 5 {
		conn, err := kit.DB.Connx(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		var told time.Time
		err = conn.GetContext(t.Context(), &told, "select nullif(current_setting('prescient_caller.clock', true), '')::timestamptz")
		if err != nil || !told.Equal(kit.Now()) {
			t.Errorf("a session has the clock %s at %s: %v", told, kit.Now(), err)
		}
	}
}

// A check after an outage fires all steps that have passed, in the order of their times. None of them is swallowed by
// the statement of a later one.
func TestStepsThatPassInAnOutageFireTogether(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry()})
	kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz)")
	kit.Rules(rulesFile(t, `rules:
  - name: case.open
    table: public.cases
    key: id
    since: opened_at
    done: closed_at
    steps:
      - {after: 1h, every: 3h, event: reminder, sql: "update public.cases set closed_at = $since where id = $key"}
      - {after: 2h, event: late}
      - {after: 3h, event: lost}
`))
	kit.DB.MustExec("insert into cases values (1, $1)", kit.Now())
	kit.Clock.Set(kit.Now().Add(5 * time.Hour)) // nothing runs
	kit.RunDue()
	want := []string{"late 1 01-04 11:00", "lost 1 01-04 12:00", "reminder 1 01-04 13:00"}
	if diff := cmp.Diff(want, fired(kit)); diff != "" {
		t.Error(diff)
	}
}

// What the engine fires in virtual time is what a test on the past says that it would have fired.
func TestARuleFiresWhatATestOnThePastSays(t *testing.T) {
	t.Parallel()
	const text = `calendars:
  office: {timezone: America/New_York, country: US, hours: "mon-fri 09:00-17:00", workdays: [2026-11-26]}
rules:
  - name: case.open
    table: public.cases
    key: id
    since: opened_at
    done: closed_at
    timezone: Europe/Berlin
    recovered: {event: recovered}
    steps:
      - {before: 1 month at 09:00, name: month, event: month}
      - {before: 3 business days, calendar: office, name: days, event: days}
      - {after: 1h, every: 36h, times: 4, name: hours, event: hours}
      - {after: 2d at 07:30, every: 1w, name: weeks, event: weeks}
      - {after: 1 business hour, every: 1 business day, calendar: office, times: 6, name: work, event: work}
`
	rnd := rand.New(rand.NewPCG(5, 8))
	start := time.Date(2026, time.September, 20, 0, 0, 0, 0, time.UTC)
	kit := testkit.New(t, testkit.Config{Registry: registry(), Start: start})
	kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz)")
	path := rulesFile(t, text)
	kit.Rules(path)
	closed := map[time.Time]int{}
	for id := range 40 {
		opened := start.AddDate(0, 0, 32).Add(time.Duration(rnd.Int64N(int64(20 * day)))).Truncate(time.Minute)
		kit.DB.MustExec("insert into cases values ($1, $2)", id, opened)
		if rnd.IntN(4) > 0 {
			closed[opened.Add(time.Duration(rnd.Int64N(int64(20*day)))-5*day).Truncate(time.Second)] = id
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(closed), time.Time.Compare) {
		kit.RunUntil(at)
		kit.DB.MustExec("update cases set closed_at = $1 where id = $2", at, closed[at])
	}
	end := start.AddDate(0, 0, 90)
	kit.RunUntil(end)
	var got, want []string
	for _, e := range kit.Events() {
		got = append(got, fmt.Sprintf("%s %s %s", e.Type, strings.TrimPrefix(e.Subject, "cases/"), e.Time.Format(time.RFC3339)))
	}
	file, err := rule.ParseIn(strings.NewReader(text), "")
	if err != nil {
		t.Fatal(err)
	}
	store, err := rulestore.New(t.Context(), kit.DB, rulestore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	applied, err := store.Understand(t.Context(), file, file.Rules[0])
	if err != nil {
		t.Fatal(err)
	}
	report, err := backtest.Run(t.Context(), kit.DB, applied, backtest.Config{From: start, To: end, Now: end, Grid: kit.Client.Grid(), List: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.List {
		want = append(want, fmt.Sprintf("%s %s %s", f.Step, f.Key, f.Due.Format(time.RFC3339)))
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" || len(want) < 300 {
		t.Errorf("%d (-test on the past +engine)\n%s", len(want), diff)
	}
}

// Rows that are there when a rule with a repetition is applied.
func TestARepetitionOfARowThatIsThereFollowsOverdue(t *testing.T) {
	t.Parallel()
	for overdue, want := range map[string][]string{
		"fire": {"r 1 03-13 09:00", "r 1 03-15 09:00", "r 1 03-18 09:00", "r 1 03-21 09:00", "r 1 03-24 09:00"},
		"skip": {"r 1 03-15 09:00", "r 1 03-18 09:00", "r 1 03-21 09:00", "r 1 03-24 09:00"},
	} {
		kit := testkit.New(t, testkit.Config{Registry: registry(), Start: time.Date(2026, time.March, 14, 9, 0, 0, 0, time.UTC)})
		kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz)")
		kit.DB.MustExec("insert into cases values (1, $1)", kit.Now().AddDate(0, 0, -12))
		text := func(every string) string {
			return "rules:\n- {name: case.open, table: public.cases, key: id, since: opened_at, done: closed_at, overdue: " + overdue +
				", steps: [{after: 1d, every: " + every + ", event: r}]}"
		}
		kit.Rules(rulesFile(t, text("2d")))
		kit.RunFor(2 * day)
		kit.Rules(rulesFile(t, text("3d"))) // #7 has fired, so #8 comes 3 days after it
		kit.RunFor(10 * day)
		if diff := cmp.Diff(want, fired(kit)); diff != "" {
			t.Errorf("%s: %s", overdue, diff)
		}
	}
}

// The row says how often, and changes it while nothing runs. Then the file says it, and the row again.
func TestARepetitionGoesOnFromItsLastTime(t *testing.T) {
	t.Parallel()
	const row = "{interval: make_interval(hours => nag)}, times: {count: most}"
	kit := testkit.New(t, testkit.Config{Registry: registry(), Start: time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC)})
	kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz, nag int, most int)")
	text := func(every string) string {
		return "rules:\n- {name: case.open, table: public.cases, key: id, since: opened_at, done: closed_at, overdue: last" +
			", steps: [{after: 4h, every: " + every + ", event: r}]}"
	}
	kit.Rules(rulesFile(t, text(row)))
	kit.DB.MustExec("insert into cases values (1, $1, null, 4, 13)", kit.Now())
	kit.RunFor(9 * time.Hour)                   // #1 at 13:00, #2 at 17:00
	kit.Clock.Set(kit.Now().Add(8 * time.Hour)) // until 02:00
	kit.DB.MustExec("update cases set nag = 2")
	kit.Clock.Set(kit.Now().Add(2 * time.Hour))
	kit.RunDue()                                   // #7 at 03:00: four are left out
	kit.RunFor(3 * time.Hour)                      // #8 at 05:00, #9 at 07:00
	kit.Rules(rulesFile(t, text("3h, times: 11"))) // #10 at 10:00
	kit.RunFor(4 * time.Hour)
	kit.DB.MustExec("update cases set nag = 24") // which the file does not say now
	kit.RunFor(10 * time.Hour)                   // #11 at 13:00, the last one
	kit.Rules(rulesFile(t, text(row)))           // the row says 13 times: #12 at 13:00 of the next day
	kit.RunFor(30 * time.Hour)
	kit.RunAll()
	want := []string{
		"r 1 03-02 13:00", "r 1 03-02 17:00", "r 1 03-03 03:00", "r 1 03-03 05:00", "r 1 03-03 07:00", "r 1 03-03 10:00", "r 1 03-03 13:00",
		"r 1 03-04 13:00", "r 1 03-05 13:00",
	}
	if diff := cmp.Diff(want, fired(kit)); diff != "" {
		t.Error(diff)
	}
	timeline, err := admin.New(kit.Client).Timeline(t.Context(), kit.DB, jobs.Key{EntityName: "cases", EntityKey: "1"})
	var last []string
	for _, e := range timeline {
		for _, f := range e.Fired {
			last = append(last, fmt.Sprintf("%s#%d, left out %d", f.Step, f.Number, f.LeftOut))
		}
	}
	if diff := cmp.Diff([]string{"r#13, left out 4"}, last); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

// After an outage, of the times of a step that have passed, the last one fires. The naive count knows all times,
// and when each slot was checked.
func TestAnOutageLeavesOutAllButTheLastRepetition(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs a thousand slots; package oracle has outages, too")
	}
	t.Parallel()
	const text = `rules:
  - name: case.open
    table: public.cases
    key: id
    since: opened_at
    done: closed_at
    steps:
      - {before: 40h, every: 7h, times: 9, event: often}
      - {after: 1h, event: once}
      - {after: 2h, every: 5m, times: 500, event: minutes}
      - {after: 26h, event: late}
`
	steps := []struct {
		name         string
		first, every time.Duration
		times        int
	}{{"often", -40 * time.Hour, 7 * time.Hour, 9}, {"once", time.Hour, 0, 1}, {"minutes", 2 * time.Hour, 5 * time.Minute, 500}, {"late", 26 * time.Hour, 0, 1}}
	rnd := rand.New(rand.NewPCG(3, 1))
	start := time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)
	kit := testkit.New(t, testkit.Config{Registry: registry(), Start: start})
	kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz)")
	kit.Rules(rulesFile(t, text))
	type outage struct{ from, to time.Time }
	outages := []outage{}
	for n := range 4 {
		from := start.Add(time.Duration(2+2*n)*day + time.Duration(rnd.IntN(20))*time.Hour + 7*time.Minute)
		outages = append(outages, outage{from, from.Add(time.Duration(1+rnd.IntN(20)) * time.Hour)})
	}
	checked := func(at time.Time) time.Time { // when the slot of an instant is checked
		slot := kit.Client.Grid().Ceil(at)
		for _, o := range outages {
			if slot.After(o.from) && !slot.After(o.to) {
				return o.to
			}
		}
		return slot
	}
	opened, closed := map[int]time.Time{}, map[int]time.Time{}
	for id := range 20 {
		opened[id] = start.Add(2*day + time.Duration(rnd.Int64N(int64(6*day)))).Truncate(time.Second)
		closed[id] = opened[id].Add(time.Duration(rnd.Int64N(int64(2 * day)))).Truncate(time.Hour).Add(10*time.Minute + time.Duration(id)*time.Second)
		kit.DB.MustExec("insert into cases values ($1, $2)", id, opened[id])
	}
	down := func(at time.Time) bool {
		return slices.ContainsFunc(outages, func(o outage) bool { return at.After(o.from) && at.Before(o.to) })
	}
	for next, left := 0, slices.SortedFunc(maps.Keys(closed), func(a, b int) int { return closed[a].Compare(closed[b]) }); len(left) > 0; {
		at := closed[left[0]]
		if next < len(outages) && !at.Before(outages[next].from) {
			o := outages[next]
			kit.RunUntil(o.from)
			for len(left) > 0 && closed[left[0]].Before(o.to.Add(30*time.Minute)) { // nothing is closed just after it
				at := slices.MinFunc([]time.Time{closed[left[0]], o.to.Add(-time.Second)}, time.Time.Compare)
				closed[left[0]] = at
				kit.Clock.Set(at)
				kit.DB.MustExec("update cases set closed_at = $1 where id = $2", at, left[0])
				left = left[1:]
			}
			kit.Clock.Set(o.to)
			kit.RunDue()
			next++
			continue
		}
		if down(at) {
			t.Fatal("closed in an outage")
		}
		kit.RunUntil(at)
		kit.DB.MustExec("update cases set closed_at = $1 where id = $2", at, left[0])
		left = left[1:]
	}
	kit.RunFor(5 * day)
	var got, want []string
	for _, e := range kit.Events() {
		got = append(got, fmt.Sprintf("%s %s %s", e.Type, strings.TrimPrefix(e.Subject, "cases/"), e.Time.Format(time.RFC3339)))
	}
	for id, since := range opened {
		for _, s := range steps {
			last := map[time.Time]time.Time{} // by when they are checked
			for n := range s.times {
				at := since.Add(s.first + time.Duration(n)*s.every)
				when := checked(at)
				if s.times > 1 && at.After(kit.Client.Grid().Floor(when)) {
					when = kit.Client.Grid().Next(when) // its slot has not begun
				}
				last[when] = at
			}
			for when, at := range last {
				if closed[id].After(when) {
					want = append(want, fmt.Sprintf("%s %d %s", s.name, id, at.Format(time.RFC3339)))
				}
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" || len(want) < 500 {
		t.Errorf("%d (-naive +engine)\n%s", len(want), diff)
	}
}

// Heartbeats move the clock later, which leaves the checks of rows. Corrections move it by days in both directions. A step
// fires in the first slot at or after its instant, if the clock has not moved until then.
func TestAClockThatMovesFiresWhatArithmeticSays(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs some ten thousand slots")
	}
	t.Parallel()
	const text = `calendars:
  office: {timezone: Europe/Berlin, country: DE, region: BE, hours: "mon-fri 09:00-17:00"}
rules:
  - {name: a, table: public.cases, key: id, since: opened_at, done: closed_at, overdue: fire, steps: [{after: 9h, event: a0}, {after: 36h, event: a1}]}
  - {name: b, table: public.cases, key: id, since: opened_at, done: closed_at, steps: [{after: 5 business hours, calendar: office, event: b0}]}
  - {name: c, table: public.cases, key: id, since: opened_at, done: closed_at, timezone: Europe/Berlin, steps: [{after: 1 month, event: c0}]}
  - {name: d, table: public.cases, key: id, since: "coalesce(opened_at, closed_at)", done: "false", timezone: Europe/Berlin, steps: [{after: 2w, event: d0}]}
  - {name: e, table: public.cases, key: id, since: opened_at, done: closed_at, steps: [{after: 3 business days, calendar: office, event: e0}]}
  - {name: f, table: public.cases, key: id, since: opened_at, done: closed_at, timezone: Europe/Berlin, steps: [{after: {interval: days}, event: f0}]}
`
	file, err := rule.ParseIn(strings.NewReader(text), "")
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(4, 1))
	start := time.Date(2026, time.October, 20, 0, 0, 0, 0, time.UTC)
	end := start.AddDate(0, 0, 100)
	kit := testkit.New(t, testkit.Config{Registry: registry(), Start: start})
	kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz, days interval default '3 days 1 hour')")
	kit.Rules(rulesFile(t, text))
	type move struct {
		at, since time.Time
	}
	moves, order := map[int][]move{}, map[time.Time]int{}
	for id := range 4 {
		for at := start.Add(time.Duration(1 + rnd.Int64N(int64(day)))); at.Before(end.AddDate(0, 0, -10)); {
			at = at.Truncate(time.Second).Add(time.Duration(1+id) * time.Microsecond)
			since := at
			if rnd.IntN(5) == 0 {
				since = at.Add(time.Duration(rnd.Int64N(int64(10*day))) - 5*day).Truncate(time.Second).Add(time.Duration(id) * time.Microsecond)
			}
			moves[id], order[at] = append(moves[id], move{at, since}), id
			most := []time.Duration{12 * time.Hour, 20 * time.Hour, 3 * day, 40 * day}[(id+rnd.IntN(2))%4]
			at = at.Add(time.Minute + time.Duration(rnd.Int64N(int64(most))))
		}
	}
	next := map[int]int{}
	for _, at := range slices.SortedFunc(maps.Keys(order), time.Time.Compare) {
		kit.RunUntil(at)
		id := order[at]
		kit.DB.MustExec("insert into cases values ($1, $2) on conflict (id) do update set opened_at = excluded.opened_at", id, moves[id][next[id]].since)
		next[id]++
	}
	kit.RunUntil(end)
	got, want := []string{}, []string{}
	for _, e := range kit.Events() {
		got = append(got, fmt.Sprintf("%s %s %s at %s", e.Type, strings.TrimPrefix(e.Subject, "cases/"), e.Time.Format(time.RFC3339Nano), e.PublishedAt.Format(time.RFC3339)))
	}
	for _, r := range file.Rules {
		timing, err := rule.NewTiming(r, file.Calendars)
		if err != nil {
			t.Fatal(err)
		}
		timing = timing.For([]expr.Held{{After: &expr.Length{Days: 3, Time: time.Hour}}, {}}, nil)
		for id, list := range moves {
			for i, m := range list {
				for n, step := range r.Steps {
					due, err := timing.Nth(n, m.since, 1)
					if err != nil {
						t.Fatal(err)
					}
					slot := kit.Client.Grid().Ceil(due.At)
					if !slot.After(m.at) {
						slot = kit.Client.Grid().Next(m.at)
					}
					if !slot.After(end) && (i == len(list)-1 || slot.Before(list[i+1].at)) {
						want = append(want, fmt.Sprintf("%s %d %s at %s", step.Event, id, due.At.Format(time.RFC3339Nano), slot.Format(time.RFC3339)))
					}
				}
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	t.Log(len(order), "moves,", len(want), "events")
	if diff := cmp.Diff(want, got); diff != "" || len(want) < 200 {
		t.Errorf("%d events (-arithmetic +engine)\n%s", len(want), diff)
	}
}

// A month after January 30 at noon is later than a month after January 31. The check of the one must not wait for it before
// the trigger could see that the clock has moved to the other.
func TestAClockThatMovesLaterMayMakeAStepEarlier(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry(), Start: time.Date(2027, time.January, 1, 0, 0, 0, 0, time.UTC)})
	kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz)")
	kit.Rules(rulesFile(t, "rules: [{name: case.open, table: public.cases, key: id, since: opened_at, done: closed_at, steps: [{after: 1 month, event: month}]}]"))
	kit.DB.MustExec("insert into cases values (1, $1)", kit.Now())
	kit.RunFor(20 * day)
	kit.DB.MustExec("update cases set opened_at = '2027-01-30 12:00Z'")
	kit.RunFor(9 * day)
	kit.DB.MustExec("update cases set opened_at = '2027-01-31 00:00Z'")
	kit.RunFor(40 * day)
	got := ""
	for _, e := range kit.Events() {
		got += e.PublishedAt.Format("01-02 15:04")
	}
	if got != "02-28 00:00" {
		t.Errorf("fired at %s", got)
	}
}

// The transaction of a heartbeat may be open when its slot begins. The check does not see it, and keeps the row.
func TestAHeartbeatThatCommitsAfterTheSlotHasBegunCounts(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry()})
	kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz)")
	kit.Rules(rulesFile(t, strings.Replace(cases, "      - {after: 7d, event: case.lost}\n", "", 1)))
	opened := kit.Now()
	kit.DB.MustExec("insert into cases values (1, $1), (2, $1)", opened)
	kit.RunUntil(opened.Add(4*day - time.Minute))
	tx := kit.DB.MustBegin()
	tx.MustExec("update cases set opened_at = $1 where id = 1", kit.Now())
	kit.RunUntil(opened.Add(4 * day))
	kit.RunUntil(opened.Add(4*day + 20*time.Minute))
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	kit.RunUntil(opened.Add(10 * day))
	want := []string{"case.late 1 " + opened.Add(4*day).Format("01-02 15:04"), "case.late 2 " + opened.Add(4*day).Format("01-02 15:04"), "case.late 1 " + opened.Add(8*day-time.Minute).Format("01-02 15:04")}
	if diff := cmp.Diff(want, fired(kit)); diff != "" {
		t.Error(diff)
	}
}
