// Package ical reads the days of an iCalendar file (RFC 5545), such as a list of public holidays.
package ical

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The bounds of a file.
const (
	MaxBytes = 1 << 20
	MaxDays  = 5000
	maxSpan  = 366 // days of one event
	maxYear  = 9999
)

// Day is a day of an event that takes all day.
type Day struct {
	// Date is a midnight in UTC.
	Date time.Time
	// Name is the summary of the event.
	Name string
	// Yearly tells that the event repeats each year from the year of Date on. Until is the last of these years.
	// 0: it has no end.
	Yearly bool
	Until  int
	// Except are years in which the event is left out.
	Except []int
}

// Days returns the days of the events of a file that take all day, each day of an event by itself. It
// leaves out events at a time of day, and cancelled ones. An event may repeat each year. The error names
// the line.
func Days(text string) (days []Day, err error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("has more than %d bytes", MaxBytes)
	}
	var e *event
	calendar := false
	for _, l := range lines(text) {
		switch name, value := l.property(); {
		case name == "BEGIN" && value == "VCALENDAR":
			calendar = true
		case name == "BEGIN" && value == "VEVENT":
			e = &event{}
		case e == nil:
		case name == "END" && value == "VEVENT":
			more, err := e.days()
			if err != nil {
				return nil, fmt.Errorf("line %d: the event before it: %w", l.number, err)
			}
			if days, e = append(days, more...), nil; len(days) > MaxDays {
				return nil, fmt.Errorf("has more than %d days", MaxDays)
			}
		default:
			if err := e.set(name, l.parameters(), value); err != nil {
				return nil, fmt.Errorf("line %d: %w", l.number, err)
			}
		}
	}
	if !calendar {
		return nil, errors.New("is no iCalendar file: it has no BEGIN:VCALENDAR")
	}
	return days, nil
}

// line is a line of a file, with those that continue it.
type line struct {
	number int // from 1
	text   string
}

func lines(text string) (list []line) {
	for i, s := range strings.Split(text, "\n") {
		s = strings.TrimSuffix(s, "\r")
		if len(list) > 0 && (strings.HasPrefix(s, " ") || strings.HasPrefix(s, "\t")) {
			list[len(list)-1].text += s[1:]
			continue
		}
		list = append(list, line{i + 1, s})
	}
	return list
}

// property returns the name of a line's property without its parameters, and its value.
func (l line) property() (name, value string) {
	name, value, _ = strings.Cut(l.text, ":")
	name, _, _ = strings.Cut(name, ";")
	return strings.ToUpper(name), strings.TrimSpace(value)
}

func (l line) parameters() string {
	name, _, _ := strings.Cut(l.text, ":")
	_, parameters, _ := strings.Cut(name, ";")
	return strings.ToUpper(parameters)
}

// event is an event that is being read.
type event struct {
	name              string
	first, end        time.Time // the end is exclusive
	length            int       // in days
	timed, cancelled  bool
	yearly            bool
	until             time.Time // of the rule; the zero time: it has none
	count             int
	month, dayOfMonth string // of the rule
	except            []int
}

const dateForm = "20060102"

var duration = regexp.MustCompile(`^P([0-9]{1,3})([DW])$`)

// set takes over a property.
func (e *event) set(name, parameters, value string) (err error) {
	switch name {
	case "SUMMARY":
		e.name = strings.NewReplacer(`\,`, ",", `\;`, ";", `\n`, " ", `\N`, " ", `\\`, `\`).Replace(value)
	case "STATUS":
		e.cancelled = strings.EqualFold(value, "CANCELLED")
	case "DTSTART":
		if e.timed = len(value) != len(dateForm); !e.timed {
			e.first, err = date(value)
		}
	case "DTEND":
		if len(value) == len(dateForm) {
			e.end, err = date(value)
		}
	case "DURATION":
		if m := duration.FindStringSubmatch(value); m != nil {
			e.length, _ = strconv.Atoi(m[1]) // has digits
			if m[2] == "W" {
				e.length *= 7
			}
		}
	case "EXDATE":
		for one := range strings.SplitSeq(value, ",") {
			day, err := date(one[:min(len(one), len(dateForm))])
			if err != nil {
				return err
			}
			e.except = append(e.except, day.Year())
		}
	case "RRULE":
		return e.repeat(value)
	case "RDATE":
		if !e.timed {
			return fmt.Errorf("%s;%s is not known here: write an event for each day", name, parameters)
		}
	}
	return err
}

func date(text string) (time.Time, error) {
	day, err := time.Parse(dateForm, text)
	if err != nil {
		return day, fmt.Errorf("%q: want a date such as 20261224", text)
	}
	return day, nil
}

// repeat takes over a rule, which repeats an event each year.
func (e *event) repeat(rule string) (err error) {
	for part := range strings.SplitSeq(strings.ToUpper(rule), ";") {
		name, value, _ := strings.Cut(part, "=")
		known := true
		switch name {
		case "FREQ":
			e.yearly = value == "YEARLY"
			known = e.yearly
		case "INTERVAL":
			known = value == "1"
		case "COUNT":
			e.count, err = strconv.Atoi(value)
			known = err == nil && e.count > 0
		case "UNTIL":
			if e.until, err = date(value[:min(len(value), len(dateForm))]); err != nil {
				return err
			}
		case "BYMONTH":
			e.month = value
		case "BYMONTHDAY":
			e.dayOfMonth = value
		case "WKST":
		default:
			known = false
		}
		if !known {
			return fmt.Errorf("RRULE:%s is not known here: write FREQ=YEARLY for the same date of each year, "+
				"or an event for each day", rule)
		}
	}
	return nil
}

// days returns the days of an event.
func (e *event) days() (list []Day, err error) {
	switch {
	case e.timed || e.cancelled:
		return nil, nil
	case e.first.IsZero():
		return nil, errors.New("has no DTSTART")
	case e.month != "" && e.month != strconv.Itoa(int(e.first.Month())),
		e.dayOfMonth != "" && e.dayOfMonth != strconv.Itoa(e.first.Day()):
		return nil, errors.New("its RRULE has another day than its DTSTART")
	}
	if e.end.IsZero() {
		e.end = e.first.AddDate(0, 0, max(e.length, 1))
	}
	if e.end.Equal(e.first) {
		e.end = e.first.AddDate(0, 0, 1)
	}
	if e.end.Before(e.first) || e.end.After(e.first.AddDate(0, 0, maxSpan)) {
		return nil, fmt.Errorf("ends %s: want an end after the begin %s, and at most %d days", e.end.Format(time.DateOnly),
			e.first.Format(time.DateOnly), maxSpan)
	}
	last := e.lastYear()
	for at := e.first; at.Before(e.end); at = at.AddDate(0, 0, 1) {
		d := Day{Date: at, Name: e.name, Yearly: e.yearly}
		if over := at.Year() - e.first.Year(); e.yearly {
			for _, year := range e.except {
				d.Except = append(d.Except, year+over)
			}
			if last > 0 {
				d.Until = last + over
			}
		}
		list = append(list, d)
	}
	return list, nil
}

// lastYear returns the last year in which the event begins. 0: it has no end.
func (e *event) lastYear() int {
	in := func(year int) time.Time { return e.first.AddDate(year-e.first.Year(), 0, 0) }
	year := e.until.Year()
	switch {
	case e.count > 0:
		year = e.first.Year()
		for left := e.count - 1; left > 0 && year < maxYear; {
			if year++; in(year).Day() == e.first.Day() { // a leap day counts only in the years that have it
				left--
			}
		}
	case e.until.IsZero():
		return 0
	case e.until.Before(in(year)): // not by the day of the year: a leap day moves that
		year--
	}
	return year
}
