package crontab

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// maxLength bounds an expression: every value of every field, listed, is half of it.
const maxLength = 1000

// Parse reads a crontab in one of the forms that the package documentation lists.
//
// Its time zone is a name of the IANA database, given in the expression or as timezone, or as both
// where they are the same; UTC where both are empty. "Local" is refused: it would be another set of
// instants on each machine.
//
// The anchor is the first instant of "@every", truncated to seconds, and has to be the same
// whenever the crontab is parsed again, such as the creation of the schedule. Other forms ignore
// it.
//
// The error says which part of the expression is wrong and what to write instead. A crontab that
// could never fire, such as on 30 February, is an error, too. A time in the past is not, because
// Parse has no clock. A caller that wants to refuse "@at" of yesterday calls Next(now), which
// returns false.
func Parse(expr, timezone string, anchor time.Time) (Crontab, error) {
	if len(expr) > maxLength {
		return Crontab{}, fmt.Errorf("parse crontab: %d characters, of at most %d", len(expr), maxLength)
	}
	set, err := parse(expr, timezone, anchor)
	if err != nil {
		return Crontab{}, fmt.Errorf("parse crontab %q: %w", expr, err)
	}
	return Crontab{set}, nil
}

// Zone returns the time zone whose clocks a crontab goes by: the one it names, else timezone; UTC
// where both are empty.
func Zone(expr, timezone string) (*time.Location, error) {
	_, name, err := cutZone(strings.TrimSpace(expr), timezone)
	if err != nil {
		return nil, err
	}
	return location(name)
}

func parse(expr, timezone string, anchor time.Time) (set, error) {
	rest, name, err := cutZone(strings.TrimSpace(expr), timezone)
	if err != nil {
		return nil, err
	}
	zone, err := location(name)
	if err != nil {
		return nil, err
	}
	switch word, argument := cutWord(rest); word {
	case "@every":
		return parseEvery(argument, anchor)
	case "@at":
		return parseAt(argument)
	}
	fields, err := named(rest)
	if err != nil {
		return nil, err
	}
	return parseCalendar(fields, zone)
}

// cutZone takes the zone off an expression.
func cutZone(expr, timezone string) (rest, name string, err error) {
	prefix, rest, ok := strings.Cut(expr, "=")
	if !ok || prefix != "CRON_TZ" && prefix != "TZ" {
		return expr, timezone, nil
	}
	name, rest = cutWord(rest)
	switch {
	case name == "":
		return "", "", fmt.Errorf("%s= names no time zone: write it right after the =, such as %[1]s=Europe/Berlin",
			prefix)
	case timezone != "" && timezone != name:
		return "", "", fmt.Errorf("two time zones, %q in the expression and %q beside it: leave out one", name,
			timezone)
	}
	return rest, name, nil
}

// cutWord splits an expression at its first white space.
func cutWord(expr string) (word, rest string) {
	end := strings.IndexFunc(expr, unicode.IsSpace)
	if end < 0 {
		return expr, ""
	}
	return expr[:end], strings.TrimSpace(expr[end:])
}

// named returns the five fields that a name such as @daily stands for; an expression without an @
// stays as it is.
func named(expr string) (string, error) {
	switch expr {
	case "@yearly", "@annually":
		return "0 0 1 1 *", nil
	case "@monthly":
		return "0 0 1 * *", nil
	case "@weekly":
		return "0 0 * * 0", nil
	case "@daily", "@midnight":
		return "0 0 * * *", nil
	case "@hourly":
		return "0 * * * *", nil
	}
	if strings.HasPrefix(expr, "@") {
		return "", fmt.Errorf("%q is none of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, "+
			"\"@every 90m\" and \"@at 1647067401\"", expr)
	}
	return expr, nil
}

func parseEvery(text string, anchor time.Time) (set, error) {
	every, err := interval(text)
	if err != nil || every < time.Second || every%time.Second != 0 {
		return nil, fmt.Errorf("@every: %q is no interval: whole seconds, at least one, such as 30s, 90m, 1d12h or 2w", text)
	}
	start := anchor.Unix()
	if start < minimum || start > maximum {
		return nil, fmt.Errorf("@every: its anchor, %s, is not between 1970 and 9999",
			anchor.UTC().Format(time.RFC3339))
	}
	return series{start: start, interval: int64(every / time.Second)}, nil
}

// interval reads whole weeks, then whole days, then a duration of Go, such as 1w, 1d12h or 90m.
func interval(text string) (sum time.Duration, err error) {
	const day = 24 * time.Hour
	for _, unit := range []struct {
		name   string
		length time.Duration
	}{{"w", 7 * day}, {"d", day}} {
		before, after, found := strings.Cut(text, unit.name)
		if !found {
			continue
		}
		n, ok := number(before)
		if !ok {
			return 0, fmt.Errorf("%q is no whole number", before)
		}
		sum, text = sum+time.Duration(n)*unit.length, after
	}
	if text == "" {
		return sum, nil
	}
	rest, err := time.ParseDuration(text)
	if rest < 0 || strings.HasPrefix(text, "+") {
		return 0, errors.New("it has a sign")
	}
	return sum + rest, err // below zero when it is too long
}

func parseAt(instant string) (set, error) {
	at, err := strconv.ParseInt(instant, 10, 64)
	if err != nil || at < minimum || at > maximum {
		return nil, fmt.Errorf("@at: %q is no instant between 1970 and 9999 in Unix seconds (not milliseconds), "+
			"such as 1647067401", instant)
	}
	return series{start: at}, nil
}

func parseCalendar(expr string, zone *time.Location) (*calendar, error) {
	texts, err := split(expr)
	if err != nil {
		return nil, err
	}
	var values [len(fields)]uint64
	var relative relative
	for i, text := range texts {
		if values[i], err = fields[i].parse(text, &relative); err != nil {
			return nil, fmt.Errorf("%s: %w", fields[i].name, err)
		}
	}
	const sunday = 1<<0 | 1<<7
	if values[4]&sunday != 0 {
		values[4] |= sunday
	}
	c := &calendar{
		minute:       values[0],
		hour:         uint32(values[1]),
		day:          uint32(values[2]),
		month:        uint16(values[3]),
		weekday:      uint8(values[4] & 0x7f),
		dayOrWeekday: !strings.Contains(texts[2], "*") && !strings.Contains(texts[4], "*"),
		fixed:        !strings.ContainsAny(texts[0], "*/") && !strings.ContainsAny(texts[1], "*/"),
		zone:         zone,

		relative: relative,
	}
	if _, ok := c.match(0); !ok {
		if !c.dayOrWeekday && texts[4] != "*" {
			return nil, fmt.Errorf("it would never fire: month %q has no day %q that is also %q of the week",
				texts[3], texts[2], texts[4])
		}
		return nil, fmt.Errorf("it would never fire: month %q has no day %q", texts[3], texts[2])
	}
	return c, nil
}

// split returns the five fields of an expression.
func split(expr string) (texts [len(fields)]string, err error) {
	n := 0
	for text := range strings.FieldsSeq(expr) {
		if n < len(texts) {
			texts[n] = text
		}
		n++
	}
	switch {
	case n == 0:
		return texts, errors.New("it is empty: write minute, hour, day of month, month and day of week, " +
			"such as \"30 2 * * *\"")
	case n < len(texts):
		return texts, fmt.Errorf("%d of 5 fields: %s is missing", n, fields[n].name)
	case n > len(texts):
		return texts, fmt.Errorf("%d fields instead of 5: it begins with the minute; seconds and years are not supported "+
			"(for seconds, see \"@every 30s\")", n)
	}
	return texts, nil
}
