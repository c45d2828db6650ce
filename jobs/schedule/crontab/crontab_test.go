package crontab_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs/schedule/crontab"
	"github.com/prescient-go/prescient/slots/grid"
)

func ExampleCrontab_Between() {
	c, err := crontab.Parse("0,30 9-10 * * mon-fri", "Europe/Berlin", time.Time{})
	if err != nil {
		panic(err)
	}
	friday := time.Date(2027, time.March, 26, 8, 45, 0, 0, time.UTC)
	for at := range c.Between(friday, friday.AddDate(0, 0, 3)) {
		fmt.Println(at.Format(time.RFC3339))
	}
	// Output:
	// 2027-03-26T09:00:00Z
	// 2027-03-26T09:30:00Z
	// 2027-03-29T07:00:00Z
	// 2027-03-29T07:30:00Z
	// 2027-03-29T08:00:00Z
	// 2027-03-29T08:30:00Z
}

func TestEveryFormStandsForItsInstants(t *testing.T) {
	t.Parallel()
	after, anchor := at(t, "2027-01-01T00:00:00Z"), at(t, "2027-01-03T10:00:07.9Z") // a Friday
	for expr, want := range map[string][]string{
		"5 4 * * *":                         {"2027-01-01T04:05:00Z", "2027-01-02T04:05:00Z"},
		"  05\t04  * * *  ":                 {"2027-01-01T04:05:00Z", "2027-01-02T04:05:00Z"},
		"*/20 9-10 * * *":                   {"2027-01-01T09:00:00Z", "2027-01-01T09:20:00Z", "2027-01-01T09:40:00Z", "2027-01-01T10:00:00Z"},
		"10-30/15,59 8 * * *":               {"2027-01-01T08:10:00Z", "2027-01-01T08:25:00Z", "2027-01-01T08:59:00Z", "2027-01-02T08:10:00Z"},
		"35/20 8 * * *":                     {"2027-01-01T08:35:00Z", "2027-01-01T08:55:00Z", "2027-01-02T08:35:00Z"},
		"0 0 * jun,Aug *":                   {"2027-06-01T00:00:00Z", "2027-06-02T00:00:00Z"},
		"0 0 1 JAN-mar *":                   {"2027-02-01T00:00:00Z", "2027-03-01T00:00:00Z", "2028-01-01T00:00:00Z"},
		"0 0 31 * *":                        {"2027-01-31T00:00:00Z", "2027-03-31T00:00:00Z", "2027-05-31T00:00:00Z", "2027-07-31T00:00:00Z"},
		"0 0 * * 0":                         {"2027-01-03T00:00:00Z", "2027-01-10T00:00:00Z"},
		"0 0 * * 7":                         {"2027-01-03T00:00:00Z", "2027-01-10T00:00:00Z"},
		"0 0 * * 0-0":                       {"2027-01-03T00:00:00Z", "2027-01-10T00:00:00Z"},
		"0 0 * * fri-sun":                   {"2027-01-02T00:00:00Z", "2027-01-03T00:00:00Z", "2027-01-08T00:00:00Z", "2027-01-09T00:00:00Z"},
		"0 0 * * mon,Wed":                   {"2027-01-04T00:00:00Z", "2027-01-06T00:00:00Z", "2027-01-11T00:00:00Z"},
		"0 0 */2 * mon":                     {"2027-01-11T00:00:00Z", "2027-01-25T00:00:00Z", "2027-02-01T00:00:00Z"}, // an odd day and a Monday
		"0 0 1-31/2 * mon":                  {"2027-01-03T00:00:00Z", "2027-01-04T00:00:00Z", "2027-01-05T00:00:00Z"}, // an odd day or a Monday
		"0 0 13 * 5":                        {"2027-01-08T00:00:00Z", "2027-01-13T00:00:00Z", "2027-01-15T00:00:00Z"},
		"0 0 30 2 1":                        {"2027-02-01T00:00:00Z", "2027-02-08T00:00:00Z"}, // the Mondays of February
		"0 0 L * *":                         {"2027-01-31T00:00:00Z", "2027-02-28T00:00:00Z"},
		"0 0 l-3 * *":                       {"2027-01-28T00:00:00Z", "2027-02-25T00:00:00Z"},
		"0 0 LW * *":                        {"2027-01-29T00:00:00Z", "2027-02-26T00:00:00Z"}, // the last days are Sundays
		"0 0 15W * *":                       {"2027-01-15T00:00:00Z", "2027-02-15T00:00:00Z"},
		"0 0 3w * *":                        {"2027-01-04T00:00:00Z", "2027-02-03T00:00:00Z"},
		"0 0 1W 5 *":                        {"2027-05-03T00:00:00Z", "2028-05-01T00:00:00Z"}, // 1 May is a Saturday, then a Monday
		"0 0 31W 1 *":                       {"2027-01-29T00:00:00Z", "2028-01-31T00:00:00Z"},
		"0 0 30W * *":                       {"2027-01-29T00:00:00Z", "2027-03-30T00:00:00Z"}, // no 30 February
		"0 0 * * 5L":                        {"2027-01-29T00:00:00Z", "2027-02-26T00:00:00Z"},
		"0 0 * * sunL":                      {"2027-01-31T00:00:00Z", "2027-02-28T00:00:00Z"},
		"0 0 * * fri#2":                     {"2027-01-08T00:00:00Z", "2027-02-12T00:00:00Z"},
		"0 0 * * 7#5":                       {"2027-01-31T00:00:00Z", "2027-05-30T00:00:00Z"},
		"0 0 L,1 * mon#1,friL":              {"2027-01-04T00:00:00Z", "2027-01-29T00:00:00Z", "2027-01-31T00:00:00Z", "2027-02-01T00:00:00Z"},
		"@yearly":                           {"2028-01-01T00:00:00Z", "2029-01-01T00:00:00Z"},
		"@annually":                         {"2028-01-01T00:00:00Z", "2029-01-01T00:00:00Z"},
		"@monthly":                          {"2027-02-01T00:00:00Z", "2027-03-01T00:00:00Z"},
		"@weekly":                           {"2027-01-03T00:00:00Z", "2027-01-10T00:00:00Z"},
		"@daily":                            {"2027-01-02T00:00:00Z", "2027-01-03T00:00:00Z"},
		"@midnight":                         {"2027-01-02T00:00:00Z", "2027-01-03T00:00:00Z"},
		"@hourly":                           {"2027-01-01T01:00:00Z", "2027-01-01T02:00:00Z"},
		"@every 90m":                        {"2027-01-03T10:00:07Z", "2027-01-03T11:30:07Z", "2027-01-03T13:00:07Z"},
		"@every\t 1s":                       {"2027-01-03T10:00:07Z", "2027-01-03T10:00:08Z", "2027-01-03T10:00:09Z"},
		"@every 1d":                         {"2027-01-03T10:00:07Z", "2027-01-04T10:00:07Z", "2027-01-05T10:00:07Z"},
		"@every 1w":                         {"2027-01-03T10:00:07Z", "2027-01-10T10:00:07Z"},
		"@every 1w2d3h":                     {"2027-01-03T10:00:07Z", "2027-01-12T13:00:07Z"},
		"@every 1d1.5h":                     {"2027-01-03T10:00:07Z", "2027-01-04T11:30:07Z"},
		"0 0 * * 1/2":                       {"2027-01-04T00:00:00Z", "2027-01-06T00:00:00Z", "2027-01-08T00:00:00Z", "2027-01-11T00:00:00Z"},
		"0 0 * * 7/1":                       {"2027-01-03T00:00:00Z", "2027-01-10T00:00:00Z"},
		"0 0 * * 1-7/2":                     {"2027-01-03T00:00:00Z", "2027-01-04T00:00:00Z", "2027-01-06T00:00:00Z"},
		"@every 9000h30s":                   {"2027-01-03T10:00:07Z", "2028-01-13T10:00:37Z"},
		"@at 1800000001":                    {"2027-01-15T08:00:01Z"},
		"CRON_TZ=Asia/Kolkata @daily":       {"2027-01-01T18:30:00Z", "2027-01-02T18:30:00Z"},
		"TZ=America/New_York 30 19 * * *":   {"2027-01-01T00:30:00Z", "2027-01-02T00:30:00Z"},
		"CRON_TZ=Etc/GMT-14 @at 1800000001": {"2027-01-15T08:00:01Z"},
	} {
		c, err := crontab.Parse(expr, "", anchor)
		if err != nil {
			t.Error(err)
			continue
		}
		var got []string
		for at, ok := c.Next(after); ok && len(got) < len(want); at, ok = c.Next(at) {
			got = append(got, at.Format(time.RFC3339Nano))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", expr, diff)
		}
	}
}

func TestTheZoneMayBeInTheExpressionOrBesideIt(t *testing.T) {
	t.Parallel()
	for _, given := range [][2]string{
		{"0 8 * * *", "Asia/Tokyo"}, {"CRON_TZ=Asia/Tokyo 0 8 * * *", ""}, {"TZ=Asia/Tokyo 0 8 * * *", "Asia/Tokyo"},
	} {
		next, ok := parse(t, given[0], given[1]).Next(at(t, "2027-01-01T00:00:00Z"))
		if want := at(t, "2027-01-01T23:00:00Z"); !ok || next != want {
			t.Errorf("%q: %s, want %s", given, next, want)
		}
	}
}

// The oracle tests the rule; this tests that the rule is the one that was promised.
func TestAChangeOfTime(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		expr, zone, from string // local time, a day ahead
		want             []string
	}{
		"a fixed time that does not exist fires once, right after the gap": {
			"30 2 * * *", "Europe/Berlin", "2027-03-27T12:00:00+01:00", []string{"2027-03-28T03:00:00+02:00", "2027-03-29T02:30:00+02:00"},
		},
		"all fixed times of a gap fire as one": {
			"0,30 2-3 28 3 *", "Europe/Berlin", "2027-03-27T12:00:00+01:00", []string{"2027-03-28T03:00:00+02:00", "2027-03-28T03:30:00+02:00"},
		},
		"a fixed time that exists twice fires once, the first": {
			"30 2 * * *", "Europe/Berlin", "2027-10-30T12:00:00+02:00", []string{"2027-10-31T02:30:00+02:00", "2027-11-01T02:30:00+01:00"},
		},
		"the second time does not count, even if one asks in between": {
			"30 2 * * *", "Europe/Berlin", "2027-10-31T02:10:00+01:00", []string{"2027-11-01T02:30:00+01:00"},
		},
		"lists and ranges are fixed times": {
			"0,20-21 0-2 * * *", "Europe/Berlin", "2027-10-31T02:00:00+02:00", []string{"2027-10-31T02:20:00+02:00", "2027-10-31T02:21:00+02:00", "2027-11-01T00:00:00+01:00"},
		},
		"a step in the minute follows elapsed time over a gap": {
			"*/30 * * * *", "America/New_York", "2027-03-14T01:15:00-05:00", []string{"2027-03-14T01:30:00-05:00", "2027-03-14T03:00:00-04:00", "2027-03-14T03:30:00-04:00"},
		},
		"a step in the minute follows elapsed time through both hours": {
			"*/30 * * * *", "America/New_York", "2027-11-07T00:45:00-04:00",
			[]string{"2027-11-07T01:00:00-04:00", "2027-11-07T01:30:00-04:00", "2027-11-07T01:00:00-05:00", "2027-11-07T01:30:00-05:00", "2027-11-07T02:00:00-05:00"},
		},
		"a wildcard in the hour, too": {
			"30 * * * *", "America/New_York", "2027-11-07T01:00:00-04:00", []string{"2027-11-07T01:30:00-04:00", "2027-11-07T01:30:00-05:00", "2027-11-07T02:30:00-05:00"},
		},
		"a range in steps, too: it does not make up for a gap": {
			"0 0-23/2 * * *", "America/New_York", "2027-03-13T23:00:00-05:00", []string{"2027-03-14T00:00:00-05:00", "2027-03-14T04:00:00-04:00"},
		},
		"a wildcard in a day does not make a time less fixed": {
			"30 2 */1 * *", "Europe/Berlin", "2027-10-31T02:30:00+02:00", []string{"2027-11-01T02:30:00+01:00"},
		},
		"@hourly follows elapsed time": {
			"@hourly", "Australia/Lord_Howe", "2027-04-04T01:15:00+11:00", []string{"2027-04-04T02:00:00+10:30", "2027-04-04T03:00:00+10:30"},
		},
		"@daily is a fixed time, and midnight may not exist": {
			"@daily", "America/Sao_Paulo", "2018-11-03T12:00:00-03:00", []string{"2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		},
		"the day of a midnight that does not exist is the one it would have begun": {
			"0 0 26 4 *", "Africa/Cairo", "2024-04-25T12:00:00+02:00", []string{"2024-04-26T01:00:00+03:00", "2025-04-26T00:00:00+03:00"},
		},
		"a gap of half an hour": {
			"15 2 * * *", "Australia/Lord_Howe", "2027-10-02T12:00:00+10:30", []string{"2027-10-03T02:30:00+11:00", "2027-10-04T02:15:00+11:00"},
		},
		"half an hour that exists twice": {
			"45 1 * * *", "Australia/Lord_Howe", "2027-04-03T12:00:00+11:00", []string{"2027-04-04T01:45:00+11:00", "2027-04-05T01:45:00+10:30"},
		},
		"what was due on a day that does not exist fires at its end": {
			"0 9,12 * * *", "Pacific/Apia", "2011-12-29T12:00:00-10:00", []string{"2011-12-31T00:00:00+14:00", "2011-12-31T09:00:00+14:00"},
		},
		"a gap that begins at a second": {
			"0,10 0 * * *", "Africa/Monrovia", "1972-01-06T12:00:00-00:44:30", []string{"1972-01-07T00:44:30Z", "1972-01-08T00:00:00Z"},
		},
		"elapsed time with an offset of seconds": {
			"*/30 * * * *", "Africa/Monrovia", "1972-01-06T23:00:00-00:44:30", []string{"1972-01-06T23:30:00-00:44", "1972-01-07T01:00:00Z"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := parse(t, test.expr, test.zone)
			location, err := time.LoadLocation(test.zone)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for next, ok := c.Next(at(t, test.from)); ok && len(got) < len(test.want); next, ok = c.Next(next) {
				got = append(got, next.In(location).Format(time.RFC3339))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%q in %s after %s (-want +got):\n%s", test.expr, test.zone, test.from, diff)
			}
		})
	}
}

func TestLeapDaysStepOver2100(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"UTC", "America/New_York", "Pacific/Auckland"} {
		for expr, want := range map[string][]int{
			"0 12 29 2 *":      {2088, 2092, 2096, 2104, 2108},
			"*/30 12 29 2 *":   {2088, 2088, 2092, 2092, 2096, 2096, 2104, 2104, 2108, 2108},
			"0 12 29 2 */7":    {2088, 2128, 2156},       // a Sunday, 40 years later for once
			"0 12 28-29 2 */7": {2088, 2094, 2100, 2106}, // a Sunday
		} {
			c := parse(t, expr, zone)
			got := []int{}
			for next, ok := c.Next(at(t, "2085-01-01T00:00:00Z")); ok && len(got) < len(want); next, ok = c.Next(next) {
				got = append(got, next.Year())
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q in %s (-want +got):\n%s", expr, zone, diff)
			}
		}
	}
}

// Next looks 40 years ahead, and no farther. So it has to find each such day from the one before
// it.
func TestEveryLeapDayOfEveryWeekdayIsFound(t *testing.T) {
	t.Parallel()
	var want []time.Time
	for year := 1972; year < 9999; year++ {
		day := time.Date(year, time.February, 29, 23, 59, 0, 0, time.UTC)
		if day.Month() == time.February && day.Weekday() == time.Sunday {
			want = append(want, day)
		}
	}
	got := slices.Collect(parse(t, "59 23 29 2 */7", "").Between(grid.Min(), grid.Max()))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAtFiresOnce(t *testing.T) {
	t.Parallel()
	c := parse(t, "@at 1647067401", "")
	want := at(t, "2022-03-12T06:43:21Z")
	if next, ok := c.Next(want.Add(-1)); !ok || next != want {
		t.Errorf("Next, just before: %s, %t", next, ok)
	}
	if next, ok := c.Next(want); ok {
		t.Errorf("Next: again at %s", next)
	}
	if prev, ok := c.Prev(want.Add(1)); !ok || prev != want {
		t.Errorf("Prev, just after: %s, %t", prev, ok)
	}
	if prev, ok := c.Prev(want); ok {
		t.Errorf("Prev: before itself at %s", prev)
	}
}

func TestBetweenTakesInItsEndAndNotItsStart(t *testing.T) {
	t.Parallel()
	c := parse(t, "@hourly", "")
	from := at(t, "2027-01-01T00:00:00Z")
	for _, test := range []struct {
		from, to time.Duration
		want     int
	}{
		{0, time.Hour, 1},
		{-1, time.Hour, 2},
		{0, time.Hour - 1, 0},
		{1, time.Hour + 1, 1},
		{0, 24 * time.Hour, 24},
		{0, 0, 0},
		{time.Hour, 0, 0},
	} {
		from, to := from.Add(test.from), from.Add(test.to)
		between := slices.Collect(c.Between(from, to))
		if len(between) != test.want {
			t.Errorf("from %s to %s: %v, want %d", test.from, test.to, between, test.want)
		}
		if diff := cmp.Diff(between, c.Latest(100, from, to)); diff != "" {
			t.Errorf("from %s to %s (-between +latest):\n%s", test.from, test.to, diff)
		}
	}
	for range c.Between(from, grid.Max()) {
		break
	}
}

// If it walked over what lies between, it would not end today.
func TestLatestIsCheapAfterAnyOutage(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string][]string{
		"@every 1s":        {"9999-12-30T23:59:59Z", "9999-12-31T00:00:00Z"},
		"* * * * *":        {"9999-12-30T23:59:00Z", "9999-12-31T00:00:00Z"},
		"* 5 1 jan,feb *":  {"9999-02-01T05:58:00Z", "9999-02-01T05:59:00Z"},
		"0 0 29 2 *":       {"9992-02-29T00:00:00Z", "9996-02-29T00:00:00Z"},
		"@at 1647067401":   {"2022-03-12T06:43:21Z"},
		"59 23 31 12 */7":  {"9989-12-31T23:59:00Z", "9995-12-31T23:59:00Z"},
		"*/15 2 28-31 3 *": {"9999-03-31T02:30:00Z", "9999-03-31T02:45:00Z"},
	} {
		var got []string
		for _, at := range parse(t, expr, "").Latest(2, grid.Min(), grid.Max()) {
			got = append(got, at.Format(time.RFC3339))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", expr, diff)
		}
	}
	if latest := parse(t, "* * * * *", "").Latest(0, grid.Min(), grid.Max()); len(latest) != 0 {
		t.Errorf("at most 0: %v", latest)
	}
}

func TestInstantsLieBetween1970And9999(t *testing.T) {
	t.Parallel()
	extremes := []time.Time{{}, time.Unix(-1<<60, 0), time.Unix(1<<60, 999_999_999), grid.Min().Add(-1), grid.Max().Add(1)}
	for _, expr := range []string{"* * * * *", "0 0 * * *", "@every 1s", "@at 0", "@at 253402214400"} {
		c := parse(t, expr, "")
		for _, extreme := range extremes {
			next, ok := c.Next(extreme)
			if past := extreme.After(grid.Min()); ok == past || ok && (next.Before(grid.Min()) || next.After(grid.Max())) {
				t.Errorf("%q: Next(%s) = %s, %t", expr, extreme, next, ok)
			}
			prev, ok := c.Prev(extreme)
			if past := extreme.After(grid.Min()); ok != past || ok && (prev.Before(grid.Min()) || prev.After(grid.Max())) {
				t.Errorf("%q: Prev(%s) = %s, %t", expr, extreme, prev, ok)
			}
		}
	}
}

func TestTheZeroCrontabHasNoInstants(t *testing.T) {
	t.Parallel()
	var c crontab.Crontab
	if next, ok := c.Next(time.Time{}); ok {
		t.Errorf("Next: %s", next)
	}
	if prev, ok := c.Prev(grid.Max()); ok {
		t.Errorf("Prev: %s", prev)
	}
}

func TestManyGoroutinesMayUseOneCrontab(t *testing.T) {
	t.Parallel()
	shared, from := parse(t, "*/5 * * * *", "Europe/Paris"), at(t, "2027-01-01T00:00:00Z")
	var wg sync.WaitGroup
	for _, zone := range []string{"Europe/Rome", "Europe/Rome", "Asia/Seoul", "Asia/Seoul", "America/Lima"} {
		wg.Go(func() {
			c, err := crontab.Parse("*/5 * * * *", zone, time.Time{})
			if err != nil {
				t.Error(err)
			}
			for at := range c.Between(from, from.AddDate(0, 0, 1)) {
				if next, ok := shared.Next(at.Add(-1)); !ok || next != at {
					t.Errorf("%s in %s, %s in Paris", at, zone, next)
				}
			}
		})
	}
	wg.Wait()
}

func TestNextDoesNotAllocate(t *testing.T) {
	from := at(t, "2027-01-01T00:00:00Z")
	for _, expr := range []string{"*/5 * * * *", "30 2 1 * mon", "@every 90s", "@at 1800000001"} {
		c := parse(t, expr, "America/New_York")
		if n := testing.AllocsPerRun(100, func() { c.Next(from) }); n != 0 {
			t.Errorf("%q: %v allocations", expr, n)
		}
	}
}

// parse reads a crontab whose anchor, if it has one, is the first instant there is.
func parse(t testing.TB, expr, zone string) crontab.Crontab {
	t.Helper()
	c, err := crontab.Parse(expr, zone, grid.Min())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// at reads RFC 3339; an offset may have seconds.
func at(t testing.TB, text string) time.Time {
	t.Helper()
	layout := time.RFC3339Nano
	if len(text) > len("2006-01-02T15:04:05-07:00") {
		layout = "2006-01-02T15:04:05Z07:00:00"
	}
	if text[len(text)-1] == 'Z' {
		layout = time.RFC3339Nano
	}
	instant, err := time.Parse(layout, text)
	if err != nil {
		t.Fatal(err)
	}
	return instant
}
