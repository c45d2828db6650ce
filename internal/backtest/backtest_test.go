package backtest_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/backtest"
	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// orders returns a database with a table of orders.
func orders(t *testing.T, values string) *sqlx.DB {
	t.Helper()
	db := pgtest.New(t)
	db.MustExec(pgtest.CreateSchema("shop"))
	db.MustExec(`create table shop.orders (id bigint primary key, placed_at timestamptz, shipped_at timestamptz, channel text)`)
	if values != "" {
		db.MustExec("insert into shop.orders values " + values)
	}
	return db
}

func unshipped(steps ...rule.Step) rule.Applied {
	return rule.Applied{
		Rule:     rule.Rule{Name: "order.unshipped", Table: "shop.orders", Done: rule.Texts{"shipped_at"}, Steps: steps},
		Relation: "shop.orders", Key: rule.Texts{"id"}, KeyType: rule.Texts{"bigint"},
		Facts: expr.Facts{
			Since: []expr.Expr{{SQL: "placed_at", Type: expr.Instant}}, Done: []expr.Expr{{SQL: "shipped_at", Type: expr.Instant}},
			Where: []expr.Expr{{SQL: "channel is distinct from 'test'", Type: expr.Truth}},
		},
		Calendars: map[string]rule.Calendar{"office": {Hours: "mon-fri 09:00-17:00"}},
	}
}

func after(t *testing.T, name, text string) rule.Step {
	t.Helper()
	d, err := rule.ParseDelay(text)
	if err != nil {
		t.Fatal(err)
	}
	s := rule.Step{Name: name, After: d, Event: name}
	if d.Business() {
		s.Calendar = "office"
	}
	return s
}

func at(text string) time.Time {
	instant, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		panic(err)
	}
	return instant
}

func TestTheFirstKeysOfAStepThatRepeatsAreDistinct(t *testing.T) {
	t.Parallel()
	db := orders(t, "(1, '2026-01-05 10:00Z', null, 'web'), (2, '2026-01-06 10:00Z', null, 'web')")
	step := after(t, "remind", "24h")
	step.Every = rule.Delay{Duration: time.Hour}
	report, err := backtest.Run(t.Context(), db, unshipped(step), backtest.Config{
		From: at("2026-01-01 00:00"), To: at("2026-03-01 00:00"), Now: at("2026-02-04 09:00"),
	})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, f := range report.Steps[0].First {
		keys = append(keys, f.Key)
	}
	if want := []string{"1", "2"}; !slices.Equal(keys, want) {
		t.Errorf("first keys %q, want %q", keys, want)
	}
}

func TestStepsFireForRowsThatAreNotDoneAtTheirSlot(t *testing.T) {
	t.Parallel()
	db := orders(t, `
		(1, '2026-01-05 10:00Z', '2026-01-05 11:00Z', null),                      -- in time
		(2, '2026-01-05 10:05Z', '2026-01-06 10:15Z', null),                      -- at the slot of the first step
		(3, '2026-01-05 10:05Z', '2026-01-06 10:15:00.000001Z', 'web'),           -- just after it
		(4, '2026-01-30 16:30Z', null, 'web'),
		(5, '2026-01-05 10:00Z', null, 'test'),
		(6, '2026-02-03 10:00Z', null, 'web'),                                    -- still to come
		(7, '2026-02-03 10:00Z', '2026-02-03 10:01Z', 'web'),
		(8, '2025-12-31 23:59Z', null, 'web'), (9, '2026-03-01 00:00Z', null, 'web'), (10, null, null, 'web'), (11, 'infinity', null, 'web'),
		(12, '2026-01-05 10:00Z', 'infinity', 'web'), (13, '2026-01-05 10:00Z', '-infinity', 'web'),
		(14, '2026-02-03 10:00Z', '2026-02-04 09:01Z', 'web')                     -- still to come, and so is its end`)
	report, err := backtest.Run(t.Context(), db, unshipped(after(t, "soon", "24h"), after(t, "late", "2 business days")), backtest.Config{
		From: at("2026-01-01 00:00"), To: at("2026-03-01 00:00"), Now: at("2026-02-04 09:00"), List: true,
		After: []rule.Delay{{Duration: time.Hour}, {BusinessTime: time.Hour}},
	})
	if err != nil {
		t.Fatal(err)
	}
	january, february := at("2026-01-01 00:00"), at("2026-02-01 00:00")
	soon3 := backtest.Fired{Step: "soon", Key: "3", Number: 1, Due: at("2026-01-06 10:05"), Slot: at("2026-01-06 10:15")}
	soon4 := backtest.Fired{Step: "soon", Key: "4", Number: 1, Due: at("2026-01-31 16:30"), Slot: at("2026-01-31 16:30")}
	soon12 := backtest.Fired{Step: "soon", Key: "12", Number: 1, Due: at("2026-01-06 10:00"), Slot: at("2026-01-06 10:00")}
	late4 := backtest.Fired{Step: "late", Key: "4", Number: 1, Due: at("2026-02-03 16:30"), Slot: at("2026-02-03 16:30")}
	late12 := backtest.Fired{Step: "late", Key: "12", Number: 1, Due: at("2026-01-07 10:00"), Slot: at("2026-01-07 10:00")}
	want := backtest.Report{
		Name: "order.unshipped", Table: "shop.orders", From: january, To: at("2026-03-01 00:00"), Rows: 9,
		Steps: []backtest.Step{
			{
				Name: "soon", When: "after 24h", Counts: backtest.Counts{Fired: 3, Met: 4, Open: 2},
				Months: []backtest.Month{{january, backtest.Counts{Fired: 3, Met: 3}}, {february, backtest.Counts{Met: 1, Open: 2}}},
				First:  []backtest.Fired{soon12, soon3, soon4}, Slots: []backtest.Slot{{soon12.Slot, 1}, {soon3.Slot, 1}, {soon4.Slot, 1}},
			},
			{
				Name: "late", When: "after 2 business days", Counts: backtest.Counts{Fired: 2, Met: 5, Open: 2},
				Months: []backtest.Month{{january, backtest.Counts{Fired: 2, Met: 4}}, {february, backtest.Counts{Met: 1, Open: 2}}},
				First:  []backtest.Fired{late12, late4}, Slots: []backtest.Slot{{late12.Slot, 1}, {late4.Slot, 1}},
			},
		},
		List: []backtest.Fired{soon12, soon3, late12, soon4, late4},
	}
	if diff := cmp.Diff(want, report, cmpopts.IgnoreUnexported(backtest.Fired{}), cmpopts.IgnoreFields(backtest.Report{}, "Alternatives"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	var alternatives []string
	for _, a := range report.Alternatives {
		alternatives = append(alternatives, fmt.Sprintf("%s%s: %+v", a.Name, a.When, a.Counts))
	}
	if diff := cmp.Diff([]string{"after 1h: {Fired:6 DoneNow:0 Met:3 Open:0 Again:0 Recorded:0}", "after 1 business hour: {Fired:6 DoneNow:0 Met:3 Open:0 Again:0 Recorded:0}"}, alternatives); diff != "" {
		t.Error(diff)
	}
}

func TestWhatFiresIsWhatArithmeticGives(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	start := at("2026-03-20 00:00")
	var values []string
	var want []string
	minute, err := grid.New(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for id := range 500 {
		placed := start.Add(time.Duration(rnd.Int64N(int64(20 * 24 * time.Hour)))).Truncate(time.Microsecond)
		shipped := placed.Add(time.Duration(rnd.Int64N(int64(6 * 24 * time.Hour)))).Truncate(time.Microsecond)
		value := fmt.Sprintf("'%s'", shipped.Format(time.RFC3339Nano))
		if rnd.IntN(5) == 0 {
			value, shipped = "null", at("2100-01-01 00:00")
		}
		values = append(values, fmt.Sprintf("(%d, '%s', %s, null)", id, placed.Format(time.RFC3339Nano), value))
		for _, s := range []struct {
			name  string
			delay time.Duration
		}{{"a", 48 * time.Hour}, {"b", 120 * time.Hour}} {
			if slot := minute.Ceil(placed.Add(s.delay)); slot.Before(shipped) {
				want = append(want, fmt.Sprintf("%s %d %s", slot.Format(time.RFC3339), id, s.name))
			}
		}
	}
	report, err := backtest.Run(t.Context(), orders(t, strings.Join(values, ",")), unshipped(after(t, "a", "48h"), after(t, "b", "120h")), backtest.Config{
		From: start, To: start.AddDate(0, 1, 0), Now: start.AddDate(1, 0, 0), Grid: minute, List: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	sum := map[string]int64{}
	for _, f := range report.List {
		got = append(got, fmt.Sprintf("%s %s %s", f.Slot.Format(time.RFC3339), f.Key, f.Step))
		sum[f.Step]++
	}
	if !slices.IsSortedFunc(report.List, func(a, b backtest.Fired) int { return a.Slot.Compare(b.Slot) }) {
		t.Error("they are not in the order of their slots")
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" || len(want) < 100 {
		t.Errorf("%d (-want +got)\n%s", len(want), diff)
	}
	for _, s := range report.Steps {
		var rows int64
		for _, slot := range s.Slots {
			rows += slot.Rows
		}
		if rows != sum[s.Name] || s.Fired != sum[s.Name] || s.Fired+s.Met != 500 || len(s.First) != 5 {
			t.Errorf("%s: %d rows in slots, %+v, %d in the list", s.Name, rows, s.Counts, sum[s.Name])
		}
		if busiest := s.Busiest(3); len(busiest) != 3 || !busiest[0].Slot.Before(busiest[2].Slot) {
			t.Errorf("busiest: %v", busiest)
		}
	}
}

// A step before since was due for rows whose clock starts later.
func TestATestUntilNowHasTheRowsWithAStepBeforeTheirSince(t *testing.T) {
	t.Parallel()
	values := "(1, '2026-02-03 09:00Z', null, null), (2, '2026-02-05 08:00Z', null, null), (3, '2026-02-06 09:00Z', null, null)"
	now := at("2026-02-04 09:00")
	for name, test := range map[string]struct {
		step rule.Step
		to   time.Time
		rows int64
		want string
	}{
		"before":         {step: rule.Step{Name: "a", Before: rule.Delay{Duration: 24 * time.Hour}}, rows: 2, want: "1 2"},
		"before, to now": {step: rule.Step{Name: "a", Before: rule.Delay{Duration: 24 * time.Hour}}, to: now, rows: 1, want: "1"},
		"after":          {step: rule.Step{Name: "a", After: rule.Delay{Duration: time.Hour}}, rows: 1, want: "1"},
	} {
		report, err := backtest.Run(t.Context(), orders(t, values), unshipped(test.step), backtest.Config{
			From: at("2026-01-01 00:00"), To: test.to, Now: now, List: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, f := range report.List {
			keys = append(keys, f.Key)
		}
		if got := strings.Join(keys, " "); got != test.want || report.Rows != test.rows || !report.To.Equal(now) {
			t.Errorf("%s: %q of %d rows to %s", name, got, report.Rows, report.To)
		}
	}
}

func TestATestReadsConditionsAsTheTriggersDo(t *testing.T) {
	t.Parallel()
	db := orders(t, "(1, '2026-01-05 12:00Z', null, null)")
	db.SetMaxOpenConns(1)
	db.MustExec("set timezone = 'Asia/Tokyo'")
	applied := unshipped(after(t, "soon", "24h"))
	applied.Facts.Where = []expr.Expr{{SQL: "extract(hour from placed_at) < 13", Type: expr.Truth}}
	report, err := backtest.Run(t.Context(), db, applied, backtest.Config{From: at("2026-01-01 00:00"), To: at("2026-03-01 00:00"), Now: at("2026-02-04 09:00")})
	if err != nil || report.Rows != 1 {
		t.Errorf("%d rows, %v", report.Rows, err)
	}
}

func TestATestTellsHowManyRowsItHasRead(t *testing.T) {
	t.Parallel()
	db := orders(t, "(1, '2030-03-01Z', null, 'web'), (2, '2030-03-01Z', null, 'web')")
	var got []int64
	_, err := backtest.Run(t.Context(), db, unshipped(after(t, "late", "24h")), backtest.Config{
		From: time.Date(2030, time.February, 1, 0, 0, 0, 0, time.UTC), Now: time.Date(2030, time.April, 1, 0, 0, 0, 0, time.UTC),
		Progress: func(rows int64) { got = append(got, rows) },
	})
	if err != nil || !slices.Equal(got, []int64{0, 1, 2}) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestATestOfARuleWritesNothing(t *testing.T) {
	t.Parallel()
	db := orders(t, `(1, '2026-01-05 10:00Z', null, null)`)
	db.MustExec(`create function shop.count() returns bigint language plpgsql as 'begin delete from shop.orders; return 1; end'`)
	r := unshipped(after(t, "soon", "24h"))
	r.Facts.Where = []expr.Expr{{SQL: "shop.count() = 1", Type: expr.Truth}}
	_, err := backtest.Run(t.Context(), db, r, backtest.Config{From: at("2026-01-01 00:00"), To: at("2026-02-01 00:00"), Now: at("2026-03-01 00:00")})
	if err == nil || !strings.Contains(err.Error(), "read shop.orders for rule order.unshipped: pq: cannot execute DELETE in a read-only transaction") {
		t.Error(err)
	}
}

func TestARowThatIsDoneNowByAConditionCountsApart(t *testing.T) {
	t.Parallel()
	db := orders(t, `(1, '2026-01-05 10:00Z', null, null), (2, '2026-01-05 10:00Z', null, 'DONE'),
		(3, '2026-01-05 10:00Z', '2026-01-05 11:00Z', 'DONE'),
		(4, '2026-01-31 10:00Z', null, 'DONE'), (5, '2026-01-31 10:00Z', null, null) -- the slot is still to come`)
	r := unshipped(after(t, "soon", "24h"))
	r.Facts.Where = nil
	r.Facts.Done = append(r.Facts.Done, expr.Expr{SQL: "channel = 'DONE'", Type: expr.Truth})
	report, err := backtest.Run(t.Context(), db, r, backtest.Config{From: at("2026-01-01 00:00"), To: at("2026-02-01 00:00"), Now: at("2026-02-01 00:00")})
	if want := (backtest.Counts{Fired: 1, DoneNow: 1, Met: 2, Open: 1}); err != nil || report.Steps[0].Counts != want {
		t.Errorf("%+v, want %+v, %v", report.Steps, want, err)
	}
}

func TestAnAlternativeInBusinessTimeNeedsACalendar(t *testing.T) {
	t.Parallel()
	r := unshipped(after(t, "soon", "24h"))
	cfg := backtest.Config{After: []rule.Delay{{BusinessDays: 1}}}
	if _, err := backtest.Run(t.Context(), nil, r, cfg); err == nil || !strings.Contains(err.Error(), "a delay of 1 business day needs a calendar: no step of rule order.unshipped names one") {
		t.Error(err)
	}
	cfg.Calendar = "office"
	if _, err := backtest.Run(t.Context(), orders(t, ""), r, cfg); err != nil {
		t.Error(err)
	}
}

// Rows whose data name no calendar or no zone are left out, and counted. An alternative counts as the row says, too.
func TestARowIsTestedByTheCalendarAndTheClocksThatItNames(t *testing.T) {
	t.Parallel()
	db := orders(t, `(1, '2026-03-27 10:00Z', null, 'office'), (2, '2026-03-27 10:00Z', null, 'sunday'), (3, '2026-03-27 10:00Z', null, 'none'), (4, '2026-03-27 10:00Z', null, null),
		(5, '2025-03-27 10:00Z', null, null), (6, '2026-03-27 10:00Z', null, 'Mars')`)
	db.MustExec("alter table shop.orders add tz text default 'Europe/Berlin'; update shop.orders set tz = 'Mars' where id = 6; update shop.orders set tz = 'UTC' where id = 2")
	day, business := after(t, "day", "3d"), after(t, "business", "1 business day")
	business.Calendar, business.CalendarName = "", "channel"
	r := unshipped(day, business)
	r.Rule.TimezoneName, r.Facts.Timezone = "tz", expr.Expr{SQL: "tz", Type: expr.Text}
	r.Facts.Calendar = []expr.Expr{{}, {SQL: "channel", Type: expr.Text}}
	r.Calendars["sunday"] = rule.Calendar{Hours: "sun 09:00-17:00"}
	report, err := backtest.Run(t.Context(), db, r, backtest.Config{
		From: at("2026-01-01 00:00"), To: at("2026-04-01 00:00"), Now: at("2026-06-01 00:00"), List: true,
		After: []rule.Delay{{Days: 2}, {BusinessDays: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, f := range report.List {
		list = append(list, fmt.Sprintf("%s %s %s", f.Step, f.Key, f.Due.Format("02 15:04")))
	}
	if diff := cmp.Diff([]string{"day 1 30 09:00", "business 1 30 10:00", "day 2 30 10:00", "business 2 05 09:00"}, list); diff != "" {
		t.Error(diff)
	}
	if report.Rows != 2 || report.Unknown != 3 || report.Alternatives[0].Fired != 2 || report.Alternatives[1].First[1].Due != at("2026-04-05 09:00") {
		t.Errorf("%+v", report)
	}
}

func TestARuleWhosePastTheTableDoesNotTellIsRefusedWithAWayToTestItsSteps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		facts func(*expr.Facts)
		want  string
	}{
		"pause": {
			func(f *expr.Facts) { f.Pause = []expr.Expr{{SQL: "channel = 'held'", Type: expr.Truth}} },
			"leave pause out, in a copy of the file",
		},
		"changed": {
			func(f *expr.Facts) { f.Changed = []string{"channel"} },
			"write an instant of the table for since, in a copy of the file",
		},
	} {
		r := unshipped(after(t, "soon", "24h"))
		c.facts(&r.Facts)
		if _, err := backtest.Run(t.Context(), nil, r, backtest.Config{}); err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
