package rule_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/rule"
)

// one returns the timing of a rule with one step.
func one(t testing.TB, after string, c rule.Calendar) *rule.Timing {
	t.Helper()
	d, err := rule.ParseDelay(after)
	if err != nil {
		t.Fatal(err)
	}
	timing, err := rule.NewTiming(rule.Rule{Steps: []rule.Step{{After: d, Calendar: "c"}}}, map[string]rule.Calendar{"c": c})
	if err != nil {
		t.Fatal(err)
	}
	return timing
}

// due returns the first instant of a step.
func due(timing *rule.Timing, since time.Time) (time.Time, error) {
	first, err := timing.Nth(0, since, 1)
	return first.At, err
}

func TestAStepIsDueAfterItsDelay(t *testing.T) {
	t.Parallel()
	berlin := rule.Calendar{Timezone: "Europe/Berlin", Country: "DE", Region: "BE", Hours: "mon-fri 09:00-17:00", Holidays: []string{"2026-12-24", "12-31 from 12:00"}}
	lunch := rule.Calendar{Hours: "mon-thu 09:00-12:00,13:00-17:00; fri 10:00-15:00"}
	always := rule.Calendar{Timezone: "Europe/Berlin", Hours: "mon-sun 00:00-24:00"}
	midnight := rule.Calendar{Timezone: "Europe/Berlin", Hours: "mon-fri 18:00-24:00"}
	for name, test := range map[string]struct {
		calendar           rule.Calendar
		after, since, want string
	}{
		"plain time is time":                               {rule.Calendar{}, "48h", "2026-03-28T12:00:00+01:00", "2026-03-30T13:00:00+02:00"},
		"the same time of day":                             {berlin, "3 business days", "2026-11-23T10:30:00+01:00", "2026-11-26T10:30:00+01:00"},
		"over a weekend":                                   {berlin, "3 business days", "2026-11-26T10:30:00+01:00", "2026-12-01T10:30:00+01:00"},
		"fractions of a second stay":                       {berlin, "1 business day", "2026-11-23T10:30:00.123456+01:00", "2026-11-24T10:30:00.123456+01:00"},
		"from a night":                                     {berlin, "1 business day", "2026-11-23T20:00:00+01:00", "2026-11-25T09:00:00+01:00"},
		"from an early morning":                            {berlin, "1 business day", "2026-11-23T06:00:00+01:00", "2026-11-24T09:00:00+01:00"},
		"the closing is outside of the hours":              {berlin, "1 business day", "2026-11-23T17:00:00+01:00", "2026-11-25T09:00:00+01:00"},
		"just before the closing":                          {berlin, "1 business day", "2026-11-23T16:59:59+01:00", "2026-11-24T16:59:59+01:00"},
		"from a Saturday":                                  {berlin, "1 business day", "2026-11-28T12:00:00+01:00", "2026-12-01T09:00:00+01:00"},
		"over Christmas, and Berlin's own day":             {berlin, "1 business day", "2026-12-23T10:00:00+01:00", "2026-12-28T10:00:00+01:00"},
		"over Easter":                                      {berlin, "1 business day", "2026-04-02T10:00:00+02:00", "2026-04-07T10:00:00+02:00"},
		"a regional holiday":                               {berlin, "1 business day", "2027-03-05T10:00:00+01:00", "2027-03-09T10:00:00+01:00"},
		"another region works on it":                       {rule.Calendar{Timezone: "Europe/Berlin", Country: "DE", Region: "BY"}, "1 business day", "2027-03-05T10:00:00+01:00", "2027-03-08T10:00:00+01:00"},
		"a half holiday is a working day":                  {berlin, "1 business day", "2026-12-30T10:00:00+01:00", "2026-12-31T10:00:00+01:00"},
		"its afternoon becomes its closing":                {berlin, "1 business day", "2026-12-30T15:00:00+01:00", "2026-12-31T12:00:00+01:00"},
		"from its afternoon":                               {berlin, "1 business day", "2026-12-31T15:00:00+01:00", "2027-01-05T09:00:00+01:00"},
		"a holiday observed in the year before":            {rule.Calendar{Timezone: "America/New_York", Country: "US"}, "1 business day", "2021-12-30T10:00:00-05:00", "2022-01-03T10:00:00-05:00"},
		"a holiday observed after a weekend":               {rule.Calendar{Timezone: "Europe/London", Country: "GB"}, "1 business day", "2022-12-23T10:00:00Z", "2022-12-28T10:00:00Z"},
		"summer time begins: the clock counts":             {berlin, "1 business day", "2026-03-27T10:00:00+01:00", "2026-03-30T10:00:00+02:00"},
		"summer time ends: the clock counts":               {berlin, "1 business day", "2026-10-23T10:00:00+02:00", "2026-10-26T10:00:00+01:00"},
		"a time that the clock skips":                      {always, "1 business day", "2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00"},
		"a time that the clock shows twice":                {always, "1 business day", "2026-10-24T02:30:00+02:00", "2026-10-25T02:30:00+02:00"},
		"from the second time that the clock shows":        {always, "1 business day", "2026-10-25T02:30:00+01:00", "2026-10-26T02:30:00+01:00"},
		"a day that begins at 01:00":                       {rule.Calendar{Timezone: "Africa/Cairo", Hours: "mon-sun 00:00-24:00"}, "1 business day", "2026-04-23T00:00:00+02:00", "2026-04-24T01:00:00+03:00"},
		"the hours of a Friday begin later":                {lunch, "1 business day", "2026-11-26T09:30:00Z", "2026-11-27T10:00:00Z"},
		"the hours of a Friday end sooner":                 {lunch, "1 business day", "2026-11-26T16:30:00Z", "2026-11-27T15:00:00Z"},
		"from a lunch break":                               {lunch, "1 business day", "2026-11-23T12:30:00Z", "2026-11-24T13:00:00Z"},
		"to a lunch break":                                 {lunch, "1 business day", "2026-11-27T12:15:00Z", "2026-11-30T13:00:00Z"},
		"hours that end at midnight":                       {midnight, "1 business day", "2026-11-23T23:59:00+01:00", "2026-11-24T23:59:00+01:00"},
		"midnight is the next day":                         {midnight, "1 business day", "2026-11-24T00:00:00+01:00", "2026-11-25T18:00:00+01:00"},
		"working hours":                                    {berlin, "4 business hours", "2026-11-23T10:00:00+01:00", "2026-11-23T14:00:00+01:00"},
		"working hours end with the day":                   {berlin, "8 business hours", "2026-11-23T09:00:00+01:00", "2026-11-23T17:00:00+01:00"},
		"working hours over a night":                       {berlin, "4 business hours", "2026-11-23T15:00:00+01:00", "2026-11-24T11:00:00+01:00"},
		"working minutes over a lunch":                     {lunch, "90 business minutes", "2026-11-23T11:00:00Z", "2026-11-23T13:30:00Z"},
		"working hours over a weekend":                     {berlin, "20 business hours", "2026-11-26T15:00:00+01:00", "2026-12-01T11:00:00+01:00"},
		"working hours over midnight":                      {rule.Calendar{Hours: "mon 22:00-24:00; tue 00:00-06:00"}, "3 business hours", "2026-11-23T23:00:00Z", "2026-11-24T02:00:00Z"},
		"working hours over the beginning of summer time":  {always, "4 business hours", "2026-03-29T00:00:00+01:00", "2026-03-29T05:00:00+02:00"},
		"working hours over the end of summer time":        {always, "4 business hours", "2026-10-25T00:00:00+02:00", "2026-10-25T03:00:00+01:00"},
		"working hours until noon of a half holiday":       {berlin, "4 business hours", "2026-12-31T10:00:00+01:00", "2027-01-04T11:00:00+01:00"},
		"working hours from a Sunday":                      {berlin, "1 business hour", "2026-11-29T10:00:00+01:00", "2026-11-30T10:00:00+01:00"},
		"no hours given: Monday to Friday, all day":        {rule.Calendar{}, "1 business hour", "2026-11-29T10:00:00Z", "2026-11-30T01:00:00Z"},
		"a range of days over a weekend":                   {rule.Calendar{Hours: "sat-mon 10:00-12:00"}, "2 business days", "2026-11-28T11:00:00Z", "2026-11-30T11:00:00Z"},
		"a leap day each year":                             {rule.Calendar{Holidays: []string{"02-29"}}, "1 business day", "2028-02-28T11:00:00Z", "2028-03-01T11:00:00Z"},
		"a day that a zone has skipped is no working day":  {rule.Calendar{Timezone: "Pacific/Apia", Hours: "mon-sun 00:00-24:00"}, "1 business day", "2011-12-29T12:00:00-10:00", "2011-12-31T12:00:00+14:00"},
		"the zone of the instant does not matter":          {berlin, "3 business days", "2026-11-23T09:30:00Z", "2026-11-26T09:30:00Z"},
		"a calendar of another half of the earth":          {rule.Calendar{Timezone: "Australia/Lord_Howe", Hours: "mon-fri 09:00-17:00"}, "1 business day", "2026-04-03T10:00:00+11:00", "2026-04-06T10:00:00+10:30"},
		"from an instant before the epoch":                 {berlin, "1 business day", "1966-11-21T10:00:00+01:00", "1966-11-22T10:00:00+01:00"},
		"a year of working days, where the days have one":  {rule.Calendar{}, "260 business days", "2026-11-23T10:00:00Z", "2027-11-22T10:00:00Z"},
		"a holiday on a day without work changes nothing ": {rule.Calendar{Holidays: []string{"2026-11-28"}}, "1 business day", "2026-11-27T10:00:00Z", "2026-11-30T10:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			since, want := instant(t, test.since), instant(t, test.want)
			timing := one(t, test.after, test.calendar)
			got, err := due(timing, since)
			if err != nil || !got.Equal(want) || got.Location() != time.UTC {
				t.Errorf("%s after %s is %s (%v), want %s", test.after, test.since, got.In(want.Location()).Format(time.RFC3339Nano), err, test.want)
			}
			if early := since.Add(timing.Earliest(0)); early.After(got) {
				t.Errorf("the earliest instant, %s, is after the exact one, %s", early, got)
			}
		})
	}
}

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestTheEarliestInstantIsNearTheExactOne(t *testing.T) {
	t.Parallel()
	office := rule.Calendar{Timezone: "Europe/Berlin", Hours: "mon-fri 09:00-17:00"}
	utc := rule.Calendar{Hours: "mon-fri 09:00-17:00"}
	half := rule.Calendar{Hours: "mon-fri 09:00-17:00", Holidays: []string{"12-24 from 12:00"}}
	for _, test := range []struct {
		calendar rule.Calendar
		after    string
		want     time.Duration
	}{
		{utc, "48h", 48 * time.Hour},
		{utc, "3 business days", 72 * time.Hour},
		{office, "3 business days", 71 * time.Hour},
		{half, "3 business days", 64 * time.Hour},
		{half, "1 business day", 16 * time.Hour},
		{utc, "4 business hours", 4 * time.Hour},
		{utc, "8 business hours", 8 * time.Hour},
		{utc, "9 business hours", 25 * time.Hour},
		{utc, "24 business hours", 56 * time.Hour},
		{rule.Calendar{}, "1 business day", 24 * time.Hour},
		{rule.Calendar{Hours: "mon 00:00-24:00; tue 00:00-00:01"}, "1 business day", 0},
	} {
		if got := one(t, test.after, test.calendar).Earliest(0); got != test.want {
			t.Errorf("%s, %s: %s, want %s", test.calendar.Hours, test.after, got, test.want)
		}
	}
}

// A later since is never due earlier, and a step is never due before its earliest instant.
func TestInstantsAreInOrder(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Africa/Cairo", "Australia/Lord_Howe", "Asia/Kolkata", "America/St_Johns", "Africa/Casablanca"}
	hours := []string{"mon-fri 09:00-17:00", "mon-sun 00:00-24:00", "mon-fri 00:00-24:00", "mon-thu 08:00-12:00,13:00-18:00; fri 07:30-11:00", "sat 22:00-24:00; sun 00:00-06:00", "mon 00:00-00:01; tue 23:59-24:00"}
	for range 200 {
		c := rule.Calendar{Timezone: zones[rnd.IntN(len(zones))], Hours: hours[rnd.IntN(len(hours))], Holidays: []string{"03-29", "10-25 from 09:30"}}
		if rnd.IntN(2) == 0 {
			c.Country, c.Holidays = "US", nil
		}
		after := fmt.Sprintf("%d business days", 1+rnd.IntN(12))
		if rnd.IntN(2) == 0 {
			after = fmt.Sprintf("%d business minutes", 1+rnd.IntN(600))
		}
		timing := one(t, after, c)
		since := time.Date(2026, time.Month(1+rnd.IntN(12)), rnd.IntN(31), rnd.IntN(24), rnd.IntN(60), rnd.IntN(60), 0, time.UTC)
		var last time.Time
		for range 50 {
			due, err := due(timing, since)
			if err != nil {
				t.Fatal(err)
			}
			if due.Before(last) || due.Before(since.Add(timing.Earliest(0))) {
				t.Fatalf("%+v: %s after %s is %s, before it %s, earliest %s", c, after, since, due, last, timing.Earliest(0))
			}
			last = due
			since = since.Add(time.Duration(rnd.IntN(7200)) * time.Second)
		}
	}
}

// Working hours are counted by another way: minute by minute.
func TestWorkingHoursAreThoseOfTheClock(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	timing := one(t, "100 business hours", rule.Calendar{Timezone: "Europe/Berlin", Hours: "mon-sat 01:00-05:00,20:00-24:00", Holidays: []string{"2026-10-27"}})
	works := func(at time.Time) bool {
		at = at.In(berlin)
		h := at.Hour()
		return at.Weekday() != time.Sunday && (at.Month() != time.October || at.Day() != 27) && (h >= 1 && h < 5 || h >= 20)
	}
	for _, since := range []time.Time{
		time.Date(2026, time.March, 20, 12, 0, 0, 0, time.UTC), time.Date(2026, time.October, 20, 1, 17, 0, 0, time.UTC), time.Date(2026, time.July, 1, 3, 0, 0, 0, time.UTC),
	} {
		want := since
		for left := 100 * 60; left > 0; want = want.Add(time.Minute) {
			if works(want) {
				left--
			}
		}
		if got, err := due(timing, since); err != nil || !got.Equal(want) {
			t.Errorf("from %s: %s, %v, want %s", since, got, err, want)
		}
	}
}

func TestACalendarWithTooLittleWorkIsAnError(t *testing.T) {
	t.Parallel()
	for _, after := range []string{"2600 business days", "20800 business hours"} {
		_, err := due(one(t, after, rule.Calendar{Hours: "mon 09:00-10:00"}), time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC))
		if !errors.Is(err, rule.ErrNoWork) {
			t.Errorf("%s: %v", after, err)
		}
	}
}

func TestATimingNeedsItsCalendars(t *testing.T) {
	t.Parallel()
	days := rule.Rule{Steps: []rule.Step{{After: rule.Delay{BusinessDays: 1}, Calendar: "c"}}}
	for want, calendars := range map[string]map[string]rule.Calendar{
		`step 1: there is no calendar "c"`:                                               nil,
		`calendar c: hours: "daily": want days and hours, such as "mon-fri 09:00-17:00"`: {"c": {Hours: "daily"}},
	} {
		if _, err := rule.NewTiming(days, calendars); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Every list of holidays can be used, and has Christmas or another day off.
func TestEveryCountryHasHolidays(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"AR", "AT", "BE", "BG", "BR", "CA", "CZ", "DE", "DK", "ES", "FR", "GB", "GR", "HR", "IE", "IT", "JP", "LT", "LV", "MW", "NC", "NL", "NO", "NZ", "PL", "RO", "RU", "SE", "SI", "SK", "UA", "US", "ZA"} {
		with, without := rule.Calendar{Country: code, Hours: "mon-sun 09:00-17:00"}, rule.Calendar{Hours: "mon-sun 09:00-17:00"}
		since := time.Date(2026, time.January, 1, 10, 0, 0, 0, time.UTC)
		a, err := due(one(t, "350 business days", with), since)
		b, _ := due(one(t, "350 business days", without), since)
		if err != nil || a.Sub(b) < 5*24*time.Hour {
			t.Errorf("%s: %s, %v", code, a.Sub(b), err)
		}
	}
}

func BenchmarkDue(b *testing.B) {
	timing := one(b, "3 business days", rule.Calendar{Timezone: "Europe/Berlin", Country: "DE", Region: "BE", Hours: "mon-fri 09:00-17:00"})
	since := time.Date(2026, time.November, 23, 9, 30, 0, 0, time.UTC)
	for b.Loop() {
		if _, err := due(timing, since); err != nil {
			b.Fatal(err)
		}
	}
}
