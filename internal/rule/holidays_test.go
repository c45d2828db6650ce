package rule_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/rule"
)

const bridgeDays = `BEGIN:VCALENDAR
BEGIN:VEVENT
DTSTART;VALUE=DATE:20260515
SUMMARY:Brückentag
END:VEVENT
BEGIN:VEVENT
DTSTART;VALUE=DATE:20251223
DTEND;VALUE=DATE:20251225
RRULE:FREQ=YEARLY
SUMMARY:Betriebsruhe
END:VEVENT
END:VCALENDAR
`

// The days of a file travel in the calendar: nothing reads the file again.
func TestACalendarHasTheDaysOfItsFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "berlin.ics"), []byte(bridgeDays), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := rule.ParseIn(strings.NewReader(`calendars:
  berlin: {timezone: Europe/Berlin, country: DE, region: BE, holidays: [12-31 from 12:00, {file: berlin.ics}], workdays: [2026-03-08, 05-01, 2027-12-24]}
rules: []`), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "berlin.ics")); err != nil {
		t.Fatal(err)
	}
	berlin := file.Calendars["berlin"]
	var got []string
	days, err := berlin.HolidaysOf(2026)
	for _, d := range days {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s, %s %s %t", d.Date, d.Name, d.Source, d.From, d.Works)))
	}
	want := []string{
		"2026-01-01 Neujahrstag, list of DE-BE  false", "2026-03-08 Frauentag, list of DE-BE  true", "2026-04-03 Karfreitag, list of DE-BE  false",
		"2026-04-06 Ostermontag, list of DE-BE  false", "2026-05-01 Tag der Arbeit, list of DE-BE  true", "2026-05-14 Christi Himmelfahrt, list of DE-BE  false",
		"2026-05-15 Brückentag, file berlin.ics  false", "2026-05-25 Pfingstmontag, list of DE-BE  false", "2026-10-03 Tag der Deutschen Einheit, list of DE-BE  false",
		"2026-12-23 Betriebsruhe, file berlin.ics  false", "2026-12-24 Betriebsruhe, file berlin.ics  false", "2026-12-25 Weihnachtstag, list of DE-BE  false",
		"2026-12-26 Zweiter Weihnachtsfeiertag, list of DE-BE  false", "2026-12-31 , holidays 12:00 false",
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for since, want := range map[string]string{
		"2026-05-13T10:00:00+02:00": "2026-05-18T10:00:00+02:00", "2026-04-30T10:00:00+02:00": "2026-05-01T10:00:00+02:00",
		"2024-12-20T10:00:00+01:00": "2024-12-23T10:00:00+01:00", "2025-12-22T10:00:00+01:00": "2025-12-29T10:00:00+01:00",
		"2027-12-22T10:00:00+01:00": "2027-12-24T10:00:00+01:00",
	} {
		if at, err := due(one(t, "1 business day", berlin), instant(t, since)); err != nil || !at.Equal(instant(t, want)) {
			t.Errorf("%s: %s, %v, want %s", since, at, err, want)
		}
	}
}

func TestTheListsOfCountriesAreCorrected(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ country, region, is, isNot string }{
		{"DE", "MV", "2026-03-08", "2022-03-08"},
		{"DE", "BE", "2028-06-17", "2027-06-17"},
		{"PL", "", "2026-12-24", "2024-12-24"},
		{"RO", "", "2026-01-06 2026-01-07", "2023-01-06"},
		{"BR", "", "2026-11-20", "2023-11-20"},
		{"NZ", "", "2026-07-10 2027-06-25", "2026-06-24"},
		{"AR", "", "2026-04-03 2026-06-15 2026-06-20 2026-08-17 2026-10-12 2026-11-23", "2026-06-17 2026-11-20"},
		{"CH", "GE", "2026-09-10 2026-12-31", "2026-06-04"},
		{"CH", "VD", "2026-09-21", "2026-09-20"},
		{"CH", "GL", "2022-04-07 2023-04-13 2026-04-09 2027-04-01", "2023-04-06 2026-04-02"},
		{"CH", "OW", "2026-09-25", ""},
		{"CH", "NE", "2026-03-01", "2026-06-04"},
		{"CH", "JU", "2026-06-23", ""},
	} {
		c := rule.Calendar{Country: test.country, Region: test.region}
		has := func(date string) bool {
			at, err := time.Parse(time.DateOnly, date)
			if err != nil {
				return false
			}
			days, err := c.HolidaysOf(at.Year())
			if err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(days, func(h rule.Holiday) bool {
				if law := !strings.HasPrefix(h.Source, "list of "); law != strings.HasPrefix(h.Page, "http") {
					t.Errorf("%s of %s has the page %q", h.Name, h.Source, h.Page)
				}
				return h.Date == date
			})
		}
		for date := range strings.FieldsSeq(test.is) {
			if !has(date) {
				t.Errorf("%s-%s: %s is no holiday", test.country, test.region, date)
			}
		}
		for date := range strings.FieldsSeq(test.isNot) {
			if has(date) {
				t.Errorf("%s-%s: %s is a holiday", test.country, test.region, date)
			}
		}
	}
}

func TestACantonMustBeNamed(t *testing.T) {
	t.Parallel()
	for _, country := range []string{"CH", "AU"} {
		_, err := rule.Calendar{Country: country}.HolidaysOf(2026)
		if err == nil || !strings.Contains(err.Error(), "region: must be set, because "+country+" has no common list of holidays: one of A") {
			t.Errorf("%s: %v", country, err)
		}
	}
}

func TestACalendarWithoutWorkingTimeIsRefused(t *testing.T) {
	t.Parallel()
	c := rule.Calendar{Hours: "sat 09:00-12:00"}
	for at := time.Date(2020, time.January, 4, 0, 0, 0, 0, time.UTC); at.Year() < 2055; at = at.AddDate(0, 0, 7) {
		c.Holidays = append(c.Holidays, at.Format(time.DateOnly))
	}
	if _, err := c.HolidaysOf(2026); err == nil || err.Error() != "it has no working time: each of its working days is a holiday" {
		t.Error(err)
	}
}
