package rule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/spoken"
)

// UnknownName is why a step has no time for a row: the data name no calendar of the file, or no time zone.
type UnknownName struct {
	// Field is timezone, or that of the calendar of a step, such as steps[1].calendar.
	Field string
	// Name is the name that the data hold. Nil: null.
	Name *string

	held      heldName
	calendars map[string]*calendar // that the file has; nil: it is a time zone
	because   error                // of a time zone
}

// heldName is a name that the data of a row hold.
type heldName struct {
	field, sql string
	such       string // a name that is known
}

// Error says what the row holds, and what to do. It is made only when it is asked for, because millions of rows may
// have such a name.
func (e *UnknownName) Error() string {
	text := strings.Join(strings.Fields(e.held.sql), " ")
	if len(text) > 60 {
		text = "the name"
	}
	if e.Name == nil {
		return fmt.Sprintf("%s: %s is null. Set it, or write a default, such as coalesce(%s, '%s')",
			e.Field, text, strings.Replace(text, "the name", "...", 1), e.held.such)
	}
	is := fmt.Sprintf("%s: %s is %.60q", e.Field, text, *e.Name)
	if e.because != nil {
		return is + ": " + e.because.Error()
	}
	names := slices.Sorted(maps.Keys(e.calendars))
	return is + ", and the file has no such calendar" + cmp.Or(spoken.Meant(*e.Name, names), others(names)+".") +
		" Correct the row, or add the calendar and apply the file"
}

// Near returns the calendars of the file that may have been meant.
func (e *UnknownName) Near() []string {
	if e.Name == nil {
		return nil
	}
	return spoken.Nearest(*e.Name, slices.Sorted(maps.Keys(e.calendars)))
}

// calendarFor returns the calendar that the data of a row name.
func (s *stepTiming) calendarFor(name *string) (*calendar, *UnknownName) {
	if name != nil && s.calendars[*name] != nil {
		return s.calendars[*name], nil
	}
	return nil, &UnknownName{Field: s.named.field, Name: name, held: s.named, calendars: s.calendars}
}

// clocksFor returns the clocks that count for a row whose data hold these values, by step: UTC if the name is not
// known.
func (t *Timing) clocksFor(list []expr.Held) (*clocks, *UnknownName) {
	if t.zone.sql == "" {
		return t.clocks, nil
	}
	var name *string
	if len(list) > 0 {
		name = list[0].Timezone
	}
	if name == nil {
		return t.clocks, &UnknownName{Field: t.zone.field, held: t.zone}
	}
	c, err := clocksOf(*name)
	if *name == "" {
		err = fmt.Errorf("it names no time zone: use a name of the IANA database, such as %s", t.zone.such)
	}
	if err != nil {
		return t.clocks, &UnknownName{Field: t.zone.field, Name: name, held: t.zone, because: err}
	}
	return c, nil
}

// tells returns from when on a check tells that it does not know the name that a step needs for a row: the step would
// fire then by the clocks of UTC, or may fire by a calendar of the file.
func (t *Timing) tells(step int, since time.Time) time.Time {
	s := *t.steps[step]
	if s.unknown = nil; s.calendars == nil {
		if at, err := s.nth(since, 1); err == nil {
			return at
		}
	}
	return since.Add(s.earliest())
}

// Unknown returns the names that the data of a row hold and that are not known. The timing is that of For.
func (t *Timing) Unknown() (list []*UnknownName) {
	for _, s := range t.steps {
		if s.unknown != nil && !slices.Contains(list, s.unknown) {
			list = append(list, s.unknown)
		}
	}
	return list
}
