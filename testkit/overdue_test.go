package testkit_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/testkit"
)

// escalation has three steps. A row came to the rule 50 hours after its since: two have passed, the third follows.
const escalation = `rules:
  - name: case.open
    table: public.cases
    key: id
    since: opened_at
    done: closed_at
    where: level = 'high'
    overdue: POLICY
    steps:
      - {after: 1d, event: first}
      - {after: 2d, event: second}
      - {after: 3d, event: third}
`

func policy(name string) string {
	if name == "" {
		return strings.Replace(escalation, "    overdue: POLICY\n", "", 1)
	}
	return strings.Replace(escalation, "POLICY", name, 1)
}

// However a row comes to a rule, the same becomes of the steps that have passed.
func TestOverdueDecidesAboutStepsThatHadPassedHoweverTheRowCame(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, time.March, 4, 12, 1, 0, 0, time.UTC)
	const late = 50 * time.Hour
	for name, want := range map[string]string{
		"fire":     "first 12:15, second 12:15, third 10:15",
		"last":     "second 12:15, third 10:15",
		"":         "second 12:15, third 10:15",
		"skip":     "third 10:15",
		"spread 1": "first 12:15, second 12:15, third 10:15",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit := testkit.New(t, testkit.Config{Registry: registry(), Start: start})
			kit.DB.MustExec("create table cases (id bigint primary key, level text not null default 'high', opened_at timestamptz, closed_at timestamptz)")
			insert := func(id int, level string, since time.Time) {
				kit.DB.MustExec("insert into cases (id, level, opened_at) values ($1, $2, $3)", id, level, since)
			}
			since := start.Add(-late)
			if name != "" { // an apply asks then
				insert(1, "high", since) // there at the apply
			}
			kit.Rules(rulesFile(t, policy(name)))
			insert(2, "high", since) // written late, alone and with another
			kit.DB.MustExec("insert into cases (id, opened_at) values (3, $1), (4, $1)", since)
			insert(5, "low", since) // enters where late
			kit.DB.MustExec("update cases set level = 'high' where id = 5")
			insert(6, "high", start) // another start of the clock
			kit.DB.MustExec("update cases set opened_at = $1 where id = 6", since)
			insert(7, "high", since) // was done and counts again: only the steps to come
			kit.DB.MustExec("update cases set closed_at = opened_at where id = 7")
			kit.DB.MustExec("update cases set closed_at = null where id = 7")
			kit.DB.MustExec("insert into cases (id, opened_at) values (8, null)") // its clock starts late
			kit.DB.MustExec("update cases set opened_at = $1 where id = 8", since)
			kit.RunFor(5 * day)
			got := map[string][]string{}
			for _, e := range kit.Events() {
				id := strings.TrimPrefix(e.Subject, "cases/")
				got[id] = append(got[id], e.Type+" "+e.PublishedAt.Format("15:04"))
			}
			if name == "" {
				got["1"] = got["2"]
			}
			wanted := map[string][]string{}
			for id := 1; id <= 8; id++ {
				wanted[fmt.Sprint(id)] = strings.Split(want, ", ")
			}
			wanted["7"] = []string{"third 10:15"}
			if diff := cmp.Diff(wanted, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The same becomes of steps that had passed if another table starts the clock, and starts it again: the row came when it
// was inserted, or when the rule was applied.
func TestOverdueDecidesAboutAClockThatAnotherTableStarts(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, time.March, 4, 12, 1, 0, 0, time.UTC)
	for name, want := range map[string]string{
		"fire":     "first, second, then first, second, third",
		"last":     "second, then first, second, third",
		"skip":     "then second, third",
		"spread 1": "first, second, then first, second, third",
	} {
		if testing.Short() && name != "last" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit := testkit.New(t, testkit.Config{Registry: registry(), Start: start})
			kit.DB.MustExec("create table cases (id bigint primary key, level text not null default 'high', opened_at timestamptz, closed_at timestamptz)")
			kit.DB.MustExec("create table calls (id bigint, at timestamptz)")
			first, again := start.Add(-50*time.Hour), start.Add(-40*time.Hour)
			kit.DB.MustExec("insert into cases (id) values (1), (2)") // there at the apply, without an instant and with one
			kit.DB.MustExec("insert into calls values (2, $1)", first)
			kit.Rules(rulesFile(t, strings.Replace(policy(name), "since: opened_at",
				"recheck: 1h\n    since: [opened_at, (select max(c.at) from public.calls c where c.id = cases.id)]", 1)))
			kit.DB.MustExec("insert into cases (id) values (3)")
			kit.RunFor(time.Hour)
			kit.DB.MustExec("insert into calls values (1, $1), (3, $1)", first)
			kit.RunFor(time.Hour)
			kit.DB.MustExec("insert into calls values (1, $1), (2, $1), (3, $1)", again)
			kit.RunFor(5 * day)
			type firing struct{ since, step string }
			got := map[string][]firing{}
			for _, e := range kit.Events() {
				var data struct{ Since time.Time }
				if err := json.Unmarshal(e.Data, &data); err != nil {
					t.Fatal(err)
				}
				id := strings.TrimPrefix(e.Subject, "cases/")
				got[id] = append(got[id], firing{data.Since.String(), e.Type})
			}
			for id := 1; id <= 3; id++ {
				var fired []string
				since := first
				for _, f := range got[fmt.Sprint(id)] {
					if f.since != since.String() {
						since, f.step = again, "then "+f.step
					}
					fired = append(fired, f.step)
				}
				if fired := strings.Join(fired, ", "); fired != want {
					t.Errorf("row %d fired %s, want %s", id, fired, want)
				}
			}
		})
	}
}

// A row that counts again leaves out steps that have passed. Another start of the clock does not, also if the check of the
// row is due when it comes.
func TestAnEarlierStartOfTheClockLeavesOutNoStepForTheOneBefore(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, time.March, 4, 12, 1, 0, 0, time.UTC)
	for name, want := range map[string]string{"fire": "first, second, third", "last": "third", "skip": "", "spread 1": "first, second, third"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit := testkit.New(t, testkit.Config{Registry: registry(), Start: start})
			kit.DB.MustExec("create table cases (id bigint primary key, level text not null default 'high', opened_at timestamptz, closed_at timestamptz)")
			kit.Rules(rulesFile(t, policy(name)))
			kit.DB.MustExec("insert into cases (id, opened_at, closed_at) values (1, $1, $1)", start)
			kit.RunFor(36 * time.Hour)
			kit.DB.MustExec("update cases set closed_at = null")
			kit.Clock.Advance(day) // past the second step
			kit.DB.MustExec("update cases set opened_at = $1", start.AddDate(0, 0, -20))
			kit.RunDue()
			kit.RunFor(day)
			var got []string
			for _, e := range kit.Events() {
				got = append(got, e.Type)
			}
			if got := strings.Join(got, ", "); got != want {
				t.Errorf("%s fired, want %s", got, want)
			}
		})
	}
}

// The steps that came while nothing ran are not late, and a step that comes between the write and the check is not.
func TestAnOutageIsNotLate(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry(), Start: time.Date(2026, time.March, 4, 12, 1, 0, 0, time.UTC)})
	kit.DB.MustExec("create table cases (id bigint primary key, level text not null default 'high', opened_at timestamptz, closed_at timestamptz)")
	kit.Rules(rulesFile(t, policy("skip")))
	kit.DB.MustExec("insert into cases (id, opened_at) values (1, $1), (2, $2), (3, $3)",
		kit.Now(), kit.Now().Add(10*time.Minute-day), kit.Now().Add(-day-time.Minute+time.Microsecond))
	kit.Clock.Advance(5 * day)
	kit.RunDue()
	kit.RunFor(time.Hour)
	got := []string{}
	for _, e := range kit.Events() {
		got = append(got, e.Type+" "+strings.TrimPrefix(e.Subject, "cases/"))
	}
	slices.Sort(got)
	want := []string{"first 1", "first 2", "first 3", "second 1", "second 2", "second 3", "third 1", "third 2", "third 3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A later policy is about other rows.
func TestStepsThatWereLeftOutStaySo(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, time.March, 4, 12, 1, 0, 0, time.UTC)
	kit := testkit.New(t, testkit.Config{Registry: registry(), Start: start})
	kit.DB.MustExec("create table cases (id bigint primary key, level text not null default 'high', opened_at timestamptz, closed_at timestamptz)")
	since := start.Add(-50 * time.Hour)
	kit.DB.MustExec("insert into cases (id, opened_at) values (1, $1)", since)
	kit.Rules(rulesFile(t, policy("skip")))
	kit.DB.MustExec("insert into cases (id, opened_at) values (2, $1), (3, $2)", since, since.AddDate(-1, 0, 0))
	kit.RunFor(time.Hour)
	kit.Rules(rulesFile(t, policy("fire")))
	kit.RunFor(5 * day)
	for id, want := range map[string]string{"1": "first,second", "2": "first,second", "3": "first,second,third"} {
		key := jobs.Key{JobExec: "case.open", EntityName: "cases", EntityKey: id}
		var p struct {
			LeftOut []string `json:"left_out"`
		}
		if err := json.Unmarshal(kit.RequireEnded(key, jobs.OutcomeDone).Payload, &p); err != nil {
			t.Fatal(err)
		}
		timeline, err := admin.New(kit.Client).Timeline(t.Context(), kit.DB, key)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(timeline[len(timeline)-1].StepsLeftOut, ","); got != want {
			t.Errorf("row %s: the timeline says that %s are left out, want %s", id, got, want)
		}
		if got := strings.Join(p.LeftOut, ","); got != want {
			t.Errorf("row %s: %s are left out, want %s", id, got, want)
		}
	}
	if diff := cmp.Diff([]string{"third 1 03-05 10:01", "third 2 03-05 10:01"}, fired(kit)); diff != "" {
		t.Error(diff)
	}
}

// Rows that are written late are spread as those that are there at the apply.
func TestRowsThatComeLateAreSpread(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, time.March, 4, 12, 1, 0, 0, time.UTC)
	kit := testkit.New(t, testkit.Config{Registry: registry(), Start: start})
	kit.DB.MustExec("create table cases (id bigint primary key, level text not null default 'high', opened_at timestamptz, closed_at timestamptz)")
	since := start.Add(-50 * time.Hour)
	kit.DB.MustExec("insert into cases (id, opened_at) select n, $1 from generate_series(1, 40) as n", since)
	kit.Rules(rulesFile(t, policy("spread 4")))
	kit.DB.MustExec("insert into cases (id, opened_at) select n, $1 from generate_series(41, 80) as n", since)
	kit.RunFor(2 * time.Hour)
	slots := map[bool]map[string]int{true: {}, false: {}}
	fired := map[int]string{}
	for _, e := range kit.Events() {
		id, err := strconv.Atoi(strings.TrimPrefix(e.Subject, "cases/"))
		if err != nil {
			t.Fatal(err)
		}
		slot := e.PublishedAt.Format("15:04")
		fired[id] += e.Type + " " + slot + " "
		slots[id > 40][slot]++
	}
	for late, of := range slots {
		if got := slices.Sorted(maps.Keys(of)); !slices.Equal(got, []string{"12:15", "12:30", "12:45", "13:00"}) {
			t.Errorf("written late: %v, slots %q", late, got)
		}
	}
	for id := 1; id <= 80; id++ {
		if slot := fired[id][len("first "):len("first 12:15")]; fired[id] != "first "+slot+" second "+slot+" " {
			t.Errorf("row %d fired %q", id, fired[id])
		}
	}
}
