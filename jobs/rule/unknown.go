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
	// Near has the calendars of the file that may have been meant.
	Near []string

	text, why string
}

// Error says what the row holds, and what to do.
func (e *UnknownName) Error() string {
	is := "null"
	if e.Name != nil {
		is = fmt.Sprintf("%.60q", *e.Name)
	}
	return fmt.Sprintf("%s: %s is %s%s", e.Field, e.text, is, e.why)
}

// heldName is a name that the data of a row hold.
type heldName struct {
	field, sql string
	such       string // a name that is known
}

// unknown returns the error of a name, and why it is one.
func (n heldName) unknown(name *string, why string) *UnknownName {
	text := strings.Join(strings.Fields(n.sql), " ")
	if len(text) > 60 {
		text = "the name"
	}
	if name == nil {
		why = fmt.Sprintf(". Set it, or write a default, such as coalesce(%s, '%s')",
			strings.Replace(text, "the name", "...", 1), n.such)
	}
	return &UnknownName{Field: n.field, Name: name, text: text, why: why}
}

// calendarFor returns the calendar that the data of a row name.
func (s *stepTiming) calendarFor(name *string) (*calendar, *UnknownName) {
	if name != nil && s.calendars[*name] != nil {
		return s.calendars[*name], nil
	}
	if name == nil {
		return nil, s.named.unknown(nil, "")
	}
	names := slices.Sorted(maps.Keys(s.calendars))
	err := s.named.unknown(name, ", and the file has no such calendar"+
		cmp.Or(spoken.Meant(*name, names), others(names)+".")+" Correct the row, or add the calendar and apply the file")
	err.Near = spoken.Nearest(*name, names)
	return nil, err
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
		return t.clocks, t.zone.unknown(nil, "")
	}
	c, err := clocksOf(*name)
	if *name == "" {
		err = fmt.Errorf("it names no time zone: use a name of the IANA database, such as %s", t.zone.such)
	}
	if err != nil {
		return t.clocks, t.zone.unknown(name, ": "+err.Error())
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
