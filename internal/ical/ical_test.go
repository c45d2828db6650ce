package ical_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/ical"
)

func file(events ...string) string {
	text := "BEGIN:VCALENDAR\r\nVERSION:2.0\r\n"
	for _, e := range events {
		text += "BEGIN:VEVENT\r\n" + strings.ReplaceAll(e, "\n", "\r\n") + "\r\nEND:VEVENT\r\n"
	}
	return text + "END:VCALENDAR\r\n"
}

func TestTheDaysOfAFileAreRead(t *testing.T) {
	t.Parallel()
	days, err := ical.Days(file(
		"DTSTART;VALUE=DATE:20261224\nDTEND;VALUE=DATE:20261225\nSUMMARY:Heilig\n abend\\, ab Mittag",
		"DTSTART;VALUE=DATE:20261231\nDTEND;VALUE=DATE:20270102\nSUMMARY:Two\nRRULE:FREQ=YEARLY;COUNT=3",
		"DTSTART;VALUE=DATE:20200229\nRRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;WKST=MO\nEXDATE;VALUE=DATE:20240229",
		"DTSTART;VALUE=DATE:20200601\nDURATION:P1D\nRRULE:FREQ=YEARLY;UNTIL=20290531",
		"DTSTART;VALUE=DATE:20200601\nSUMMARY:to its last day\nRRULE:FREQ=YEARLY;UNTIL=20290601",
		"DTSTART;VALUE=DATE:20240315\nSUMMARY:from a leap year\nRRULE:FREQ=YEARLY;UNTIL=20270315",
		"DTSTART;VALUE=DATE:20230315\nSUMMARY:to a leap year\nRRULE:FREQ=YEARLY;UNTIL=20280314",
		"DTSTART;VALUE=DATE:20200229\nSUMMARY:a leap day\nRRULE:FREQ=YEARLY;COUNT=3",
		"RRULE:FREQ=YEARLY;UNTIL=20270314\nSUMMARY:the rule first\nDTSTART;VALUE=DATE:20240315",
		"DTSTART:20261226T100000Z\nSUMMARY:at a time of day\nRRULE:FREQ=YEARLY",
		"DTSTART;VALUE=DATE:20261227\nSTATUS:CANCELLED",
	))
	var got []string
	for _, d := range days {
		got = append(got, fmt.Sprintf("%s %q %t %d %v", d.Date.Format(time.DateOnly), d.Name, d.Yearly, d.Until, d.Except))
	}
	want := []string{
		`2026-12-24 "Heiligabend, ab Mittag" false 0 []`, `2026-12-31 "Two" true 2028 []`, `2027-01-01 "Two" true 2029 []`,
		`2020-02-29 "" true 0 [2024]`, `2020-06-01 "" true 2028 []`, `2020-06-01 "to its last day" true 2029 []`,
		`2024-03-15 "from a leap year" true 2027 []`, `2023-03-15 "to a leap year" true 2027 []`,
		`2020-02-29 "a leap day" true 2028 []`, `2024-03-15 "the rule first" true 2026 []`,
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

func TestAFileThatCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	for want, text := range map[string]string{
		"is no iCalendar file":                             "2026-12-24\n",
		`line 4: "2026122x": want a date such as 20261224`: file("DTSTART;VALUE=DATE:2026122x"),
		"line 5: RRULE:FREQ=WEEKLY is not known here":      file("DTSTART;VALUE=DATE:20261224\nRRULE:FREQ=WEEKLY"),
		"RRULE:FREQ=YEARLY;BYDAY=1MO is not known here":    file("DTSTART;VALUE=DATE:20261224\nRRULE:FREQ=YEARLY;BYDAY=1MO"),
		"its RRULE has another day than its DTSTART":       file("DTSTART;VALUE=DATE:20261224\nRRULE:FREQ=YEARLY;BYMONTHDAY=25"),
		"line 5: the event before it: has no DTSTART":      file("SUMMARY:none"),
		"ends 2026-12-20: want an end after the begin":     file("DTSTART;VALUE=DATE:20261224\nDTEND;VALUE=DATE:20261220"),
		"has more than 1048576 bytes":                      strings.Repeat("x", 1<<20+1),
		"has more than 5000 days":                          file(strings.Split(strings.Repeat("DTSTART;VALUE=DATE:20260101\nDTEND;VALUE=DATE:20270101|", 14), "|")[:14]...),
	} {
		if _, err := ical.Days(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func FuzzDays(f *testing.F) {
	f.Add(file("DTSTART;VALUE=DATE:20261224\nRRULE:FREQ=YEARLY;UNTIL=2030\nEXDATE:2"))
	f.Fuzz(func(t *testing.T, text string) {
		if days, err := ical.Days(text); err == nil && len(days) > ical.MaxDays {
			t.Error(len(days))
		}
	})
}
