package testkit_test

import (
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

// A script runs statements at hours after the start, which is a Monday at 09:00, and wants events as "type key hour". Row 1
// and row 2 are inserted at the start.
func TestTheClockOfARowStandsStillWhileItIsPaused(t *testing.T) {
	t.Parallel()
	const (
		hold1 = "update cases set held = true where id = 1"
		free1 = "update cases set held = false where id = 1"
	)
	plain := "since: opened_at, done: closed_at, pause: held, steps: [{after: 4h, event: late}, {after: 20h, event: lost}]"
	tests := map[string]struct {
		rule   string // fields beside name, table and key
		script map[float64]string
		want   []string
	}{
		"a pause before the step": {
			plain,
			map[float64]string{1: hold1, 3: free1},
			[]string{"late 2 4", "late 1 6", "lost 2 20", "lost 1 22"},
		},
		"a pause over the step": {
			plain,
			map[float64]string{3: hold1, 40: free1},
			[]string{"late 2 4", "lost 2 20", "late 1 41", "lost 1 57"},
		},
		"several pauses": {
			plain,
			map[float64]string{1: hold1, 2: free1, 3: hold1, 4: free1, 4.5: hold1, 4.75: "update cases set kind = 'b' where id = 1", 5: free1, 10: hold1, 11: free1},
			[]string{"late 2 4", "late 1 6.5", "lost 2 20", "lost 1 23.5"},
		},
		"a pause that does not end": {
			plain,
			map[float64]string{5: hold1},
			[]string{"late 1 4", "late 2 4", "lost 2 20"},
		},
		"a step that has been due when the pause begins": {
			strings.Replace(plain, "4h", "241m", 1),
			map[float64]string{4.1: hold1, 8: free1},
			[]string{"late 2 4.25", "late 1 8.25", "lost 2 20", "lost 1 24"},
		},
		"a pause that begins before the clock": {
			plain,
			map[float64]string{1: hold1, 2: "update cases set opened_at = $1::timestamptz + interval '1 hour' where id = 1", 5: free1},
			[]string{"late 2 4", "late 1 9", "lost 2 20", "lost 1 25"},
		},
		"a pause that is over before the clock begins": {
			plain,
			map[float64]string{1: hold1, 2: free1, 3: "update cases set opened_at = $1 where id = 1"},
			[]string{"late 2 4", "late 1 7", "lost 2 20", "lost 1 23"},
		},
		"a row that is inserted late, and paused": {
			plain + ", overdue: skip",
			map[float64]string{1: "insert into cases values (3, $1::timestamptz - interval '6 hours', null, 'a', true)", 3: "update cases set held = false where id = 3"},
			[]string{"late 1 4", "late 2 4", "lost 3 17", "lost 1 20", "lost 2 20"},
		},
		"a row that is inserted late, and paused, whose steps fire": {
			plain + ", overdue: fire",
			map[float64]string{1: "insert into cases values (3, $1::timestamptz - interval '6 hours', null, 'a', true)", 3: "update cases set held = false where id = 3"},
			[]string{"late 3 3.25", "late 1 4", "late 2 4", "lost 3 17", "lost 1 20", "lost 2 20"},
		},
		"a row that is done while it is paused": {
			plain + ", recovered: {event: recovered}",
			map[float64]string{5: hold1, 6: "update cases set closed_at = $1", 7: free1, 8: "update cases set closed_at = null"},
			[]string{"late 1 4", "late 2 4", "recovered 1 6.25", "recovered 2 6.25", "lost 2 20", "lost 1 22"},
		},
		"a row that gets another key": {
			plain,
			map[float64]string{1: hold1, 2: "update cases set id = 7 where id = 1", 3: "update cases set held = false where id = 7"},
			[]string{"late 2 4", "late 7 6", "lost 2 20", "lost 7 22"},
		},
		"another row with the key": {
			plain,
			map[float64]string{1: hold1, 2: "delete from cases where id = 1", 3: "insert into cases values (1, $1)"},
			[]string{"late 2 4", "late 1 7", "lost 2 20", "lost 1 23"},
		},
		"a step that repeats": {
			"since: opened_at, done: closed_at, pause: held, steps: [{after: 4h, every: 2h, times: 3, event: late}]",
			map[float64]string{5: hold1, 9: free1},
			[]string{"late 1 4", "late 2 4", "late 2 6", "late 2 8", "late 1 10", "late 1 12"},
		},
		"a time of day": {
			"since: opened_at, done: closed_at, pause: held, steps: [{after: 0d at 12:00, event: noon}, {after: 1d at 12:00, every: 1d, times: 2, event: daily}]",
			map[float64]string{2: hold1, 4: free1, 26: hold1, 28: free1},
			[]string{"noon 2 3", "daily 2 27", "noon 1 51", "daily 1 51", "daily 2 51"},
		},
		"a delay of the row": {
			"since: opened_at, done: closed_at, pause: held, steps: [{after: {interval: make_interval(hours => length(kind) * 4)}, event: late}]",
			map[float64]string{1: hold1, 2: "update cases set kind = 'ab' where id = 1", 3: free1},
			[]string{"late 2 4", "late 1 10"},
		},
		"one of several conditions": {
			"since: opened_at, done: closed_at, pause: [held, kind = 'b'], steps: [{after: 4h, event: late}]",
			map[float64]string{1: hold1, 2: "update cases set kind = 'b' where id = 1", 3: free1, 5: "update cases set kind = 'a' where id = 1"},
			[]string{"late 2 4", "late 1 8"},
		},
		"the clock starts with a change": {
			"since: changed(kind), done: closed_at, pause: held, steps: [{after: 4h, event: late}]",
			map[float64]string{1: "update cases set kind = 'b', held = true where id = 1", 3: free1},
			[]string{"late 2 4", "late 1 7"},
		},
		"business hours": {
			"since: opened_at, done: closed_at, pause: held, steps: [{after: 10 business hours, calendar: c, event: late}, {after: 2 business days, calendar: c, event: lost}]",
			map[float64]string{4: hold1, 24: free1, 30: hold1, 31: free1},
			[]string{"late 2 26", "late 1 30", "lost 2 48", "lost 1 53"},
		},
	}
	for n, name := range slices.Sorted(maps.Keys(tests)) {
		if testing.Short() && n%4 > 0 {
			continue
		}
		test := tests[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC)
			kit := testkit.New(t, testkit.Config{Registry: registry(), Start: start})
			kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz, kind text default 'a', held boolean default false)")
			kit.Rules(rulesFile(t, "calendars: {c: {hours: mon-fri 09:00-17:00}}\nrules: [{name: r, table: public.cases, key: id, "+test.rule+"}]"))
			kit.DB.MustExec("insert into cases values (1, $1), (2, $1)", start)
			for _, at := range slices.Sorted(maps.Keys(test.script)) {
				kit.RunUntil(start.Add(time.Duration(at*60) * time.Minute))
				var args []any
				if strings.Contains(test.script[at], "$1") {
					args = append(args, kit.Now())
				}
				kit.DB.MustExec(test.script[at], args...)
			}
			kit.RunUntil(start.Add(60 * time.Hour))
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

// Four working hours outside of the hold, in Berlin.
func TestATicketHasItsWorkingHoursOutsideOfTheHold(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		at, err := time.Parse("2006-01-02 15:04 -07", "2026-11-"+text+" +01")
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	kit := testkit.New(t, testkit.Config{Registry: registry(), Start: at("02 08:00")})
	kit.DB.MustExec("create table ticket (name text primary key, creation timestamptz, resolution_date timestamptz, status text default 'open')")
	kit.Rules(rulesFile(t, `
calendars:
  office: {timezone: Europe/Berlin, country: DE, region: BE, hours: "mon-fri 09:00-17:00"}
rules:
  - name: ticket.high
    table: public.ticket
    key: name
    since: creation
    done: resolution_date
    pause: status = 'on hold'
    steps: [{after: 4 business hours, calendar: office, event: ticket.failed}]`))
	for _, s := range []struct{ at, sql string }{
		{"02 10:00", "insert into ticket values ('A', $1), ('C', $1)"},
		{"02 13:00", "update ticket set status = 'on hold' where name = 'C'"},
		{"02 16:00", "insert into ticket values ('B', $1)"},
		{"03 09:00", "update ticket set status = case name when 'B' then 'on hold' else 'open' end where name in ('B', 'C')"},
		{"03 19:00", "update ticket set status = 'open' where name = 'B'"},
		{"05 10:00", "insert into ticket values ('D', $1)"},
		{"05 13:00", "update ticket set status = 'on hold' where name = 'D'"},
		{"09 09:00", "update ticket set status = 'open' where name = 'D'"},
	} {
		kit.RunUntil(at(s.at))
		kit.DB.MustExec(strings.ReplaceAll(s.sql, "$1", "'"+kit.Now().Format(time.RFC3339)+"'"))
	}
	kit.RunUntil(at("12 09:00"))
	var got []string
	for _, e := range kit.Events() {
		got = append(got, strings.TrimPrefix(e.Subject, "ticket/")+" "+e.Time.Format("02 15:04"))
	}
	if diff := cmp.Diff([]string{"A 02 13:00", "C 03 09:00", "B 04 11:00", "D 09 09:00"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhyShowsSinceWhenARowIsPausedAndWhatHasPassedOfEachDelay(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC)
	kit := testkit.New(t, testkit.Config{Registry: registry(), Start: start})
	kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, held boolean)")
	kit.Rules(rulesFile(t, `calendars: {c: {hours: mon-fri 09:00-17:00}}
rules: [{name: r, table: public.cases, key: id, since: opened_at, done: "false", pause: held, steps: [{after: 1h, event: a}, {after: 30h, event: b}, {after: 20 business hours, calendar: c, event: c}]}]`))
	kit.DB.MustExec("insert into cases values (1, $1, false)", start)
	last := func() (since time.Time, used []string) {
		t.Helper()
		entries, err := admin.New(kit.Client).Timeline(t.Context(), kit.DB, jobs.Key{EntityName: "cases", EntityKey: "1"})
		if err != nil {
			t.Fatal(err)
		}
		e := entries[len(entries)-1]
		if told := strings.Contains(e.Sentence(kit.Now(), "prescient"), "Its clock is paused since"); told == e.PausedSince.IsZero() {
			t.Error(e.Sentence(kit.Now(), "prescient"))
		}
		return e.PausedSince, e.Used
	}
	write := func(hour float64, held bool) {
		kit.RunUntil(start.Add(time.Duration(hour*60) * time.Minute))
		kit.DB.MustExec("update cases set held = $1", held)
		kit.RunUntil(start.Add(time.Duration(hour*60+15) * time.Minute))
	}
	write(2, true)
	write(5, false)
	if since, used := last(); !since.IsZero() || len(used) > 0 {
		t.Errorf("running: %v %q", since, used)
	}
	kit.RunUntil(start.Add(10 * time.Hour))
	kit.DB.MustExec("update cases set held = true")
	if since, used := last(); !since.Equal(start.Add(10*time.Hour)) || len(used) > 0 {
		t.Errorf("before the next check: paused since %v, used %q", since, used)
	}
	kit.RunUntil(start.Add(50 * time.Hour))
	since, used := last()
	if want := []string{"b 7h", "c 5h of working time"}; !since.Equal(start.Add(10*time.Hour)) || !slices.Equal(used, want) {
		t.Errorf("paused since %v, used %q, want %q", since, used, want)
	}
	kit.DB.MustExec("update cases set held = false")
	if since, _ := last(); !since.IsZero() {
		t.Errorf("after the pause: paused since %v", since)
	}
}
