package testkit_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/testkit"
)

// If no row changes, the steps fire as the plan has forecast, also after an apply and in the middle of the wait.
func TestWhatAPlanForecastsFires(t *testing.T) {
	t.Parallel()
	const file = `calendars: {office: {timezone: Europe/Berlin, hours: "mon-fri 09:00-17:00"}}
rules:
  - name: case.open
    table: public.cases
    key: id
    since: opened_at
    done: closed_at
    where: level = 'high'
    timezone: Europe/Berlin
    overdue: %s
    steps:
      - {after: 1d, event: first}
      - {after: 2 business days, calendar: office, event: second}
      - {after: {interval: hold}, event: third}
      - {after: 4d at 09:00, event: fourth}
`
	start := time.Date(2026, time.March, 26, 12, 7, 0, 0, time.UTC) // clocks change three days later
	for n, policy := range []string{"fire", "last", "skip", "spread 6"} {
		if testing.Short() && policy != "last" {
			continue
		}
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(uint64(n), 53))
			kit := testkit.New(t, testkit.Config{Registry: registry(), Start: start})
			kit.DB.MustExec("create table cases (id bigint primary key, level text not null, opened_at timestamptz, closed_at timestamptz, hold interval)")
			for id := range 60 {
				opened := start.Add(-time.Duration(rnd.Int64N(int64(6 * day))))
				kit.DB.MustExec(`insert into cases values ($1, case when $2 < 9 then 'high' else 'low' end, $3::timestamptz, case when $2 = 1 then $3::timestamptz + interval '50 hours' end,
					case when $2 <> 2 then make_interval(hours => $4) end)`, id, rnd.IntN(10), opened, rnd.IntN(100))
			}
			path := rulesFile(t, fmt.Sprintf(file, policy))
			before := forecastOf(t, kit, path)
			kit.Rules(path)
			if diff := cmp.Diff(before, forecastOf(t, kit, path)); diff != "" {
				t.Errorf("an apply changes the forecast (-before +after)\n%s", diff)
			}
			kit.RunFor(day)
			half := len(kit.Events())
			after := forecastOf(t, kit, path)
			kit.RunFor(9 * day)
			fires := func(from int) map[string]int64 {
				fired := map[string]int64{}
				for _, e := range kit.Events()[from:] {
					fired[e.Type+" at "+e.PublishedAt.Format(time.RFC3339)]++
				}
				return fired
			}
			if diff := cmp.Diff(before, fires(0)); diff != "" {
				t.Errorf("(-forecast +fired)\n%s", diff)
			}
			if diff := cmp.Diff(after, fires(half)); diff != "" || half == 0 || len(after) == 0 {
				t.Errorf("after a day, with %d fired (-forecast +fired)\n%s", half, diff)
			}
		})
	}
}

// forecastOf returns for how many rows a plan says that each step will fire in each slot.
func forecastOf(t *testing.T, kit *testkit.Kit, path string) map[string]int64 {
	t.Helper()
	text, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = text.Close() }()
	file, err := rule.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	store, err := rulestore.New(t.Context(), kit.DB, rulestore.Config{Now: kit.Now, PageSize: 7})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := store.Plan(t.Context(), file, nil)
	if err != nil {
		t.Fatal(err)
	}
	fires := map[string]int64{}
	for _, s := range plan.Rules[0].Forecast {
		for _, slot := range s.Slots {
			fires[s.Step+" at "+slot.Slot.Format(time.RFC3339)] += slot.Rows
		}
	}
	return fires
}
