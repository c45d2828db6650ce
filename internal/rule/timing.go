package rule

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/slots/grid"
)

// ErrNoWork is returned for a calendar whose working time ends before a delay does.
var ErrNoWork = errors.New("the calendar has too little working time")

// Timing computes when the steps of a rule fire: a step is a function from an instant from which delays
// count to the times at which it fires. It is safe for concurrent use.
type Timing struct {
	steps  []*stepTiming
	clocks *clocks  // of the rule. If the data of a row name the zone, they stand for those of any zone
	zone   heldName // of the zone. The zero value: the data do not name it
}

// Occurrence is one of the times at which a step fires for a row.
type Occurrence struct {
	// Number counts from 1. 0: there is no such occurrence.
	Number int
	At     time.Time // UTC
}

// NewTiming returns the timing of a rule. calendars has at least those that its steps name. If the data of rows name
// the calendar of a step, it has all that they may name.
func NewTiming(r Rule, calendars map[string]Calendar) (*Timing, error) {
	zone, err := clocksOf(r.Timezone)
	if err != nil {
		return nil, fmt.Errorf("timezone: %w", err)
	}
	t := &Timing{clocks: zone}
	if r.TimezoneName != "" {
		t.clocks, t.zone = anyClocks(), heldName{field: "timezone", sql: r.TimezoneName, such: "Europe/Berlin"}
	}
	known := map[string]*calendar{}
	find := func(i int, name string) (*calendar, error) {
		c, found := calendars[name]
		switch {
		case !found:
			return nil, fmt.Errorf("step %d: there is no calendar %q", i+1, name)
		case known[name] == nil:
			if known[name], err = c.compile(); err != nil {
				return nil, fmt.Errorf("calendar %s: %w", name, err)
			}
		}
		return known[name], nil
	}
	for i, s := range r.Steps {
		timing := &stepTiming{clocks: t.clocks, first: s.After.move(1), every: s.Every.move(1), limit: maxTimes}
		timing.interval, timing.paced, timing.counted = s.Interval != "", s.EveryInterval != "", s.TimesCount != ""
		if s.Before != (Delay{}) {
			timing.first = s.Before.move(-1)
		}
		if s.Repeats() {
			timing.limit = cmp.Or(s.Times, maxTimes)
		} else {
			timing.limit = 1
		}
		if at := cmp.Or(s.Before.At, s.After.At); at != "" {
			timing.timed = true
			if timing.clock, err = parseTimeOfDay(at); err != nil {
				return nil, fmt.Errorf("step %d: %w", i+1, err)
			}
		}
		switch {
		case s.CalendarName != "":
			names := slices.Sorted(maps.Keys(calendars))
			if len(names) == 0 {
				return nil, fmt.Errorf("step %d: there are no calendars", i+1)
			}
			timing.named = heldName{field: fmt.Sprintf("steps[%d].calendar", i+1), sql: s.CalendarName, such: names[0]}
			timing.calendars = map[string]*calendar{}
			for _, name := range names {
				if timing.calendars[name], err = find(i, name); err != nil {
					return nil, err
				}
			}
		case s.Calendar != "" || s.business():
			if timing.calendar, err = find(i, s.Calendar); err != nil {
				return nil, err
			}
		}
		timing.earliest = sync.OnceValue(timing.least)
		t.steps = append(t.steps, timing)
	}
	return t, nil
}

// For returns the timing for a row with these pauses, the earliest first, and whose data hold these values, by step.
//
// A step whose delay is null there never fires, nor does one whose number of times is less than 1. A step whose delay
// between two times is null, or not longer than nothing, fires once. Without a number of times, it fires until the row
// is done.
//
// A step whose calendar or clocks the data name has no time if the name is not known: an UnknownName is the error.
//
// A pause moves what comes after it later. While it lasts, such a time does not exist. A time of day is then the first
// one that clocks show outside of a pause.
func (t *Timing) For(list []expr.Held, pauses []Pause) *Timing {
	holds := func(s *stepTiming) bool { return s.interval || s.paced || s.counted || s.calendars != nil }
	if len(pauses) == 0 && t.zone.sql == "" && !slices.ContainsFunc(t.steps, holds) {
		return t
	}
	clocks, unknown := t.clocksFor(list)
	of := &Timing{clocks: clocks}
	for i, s := range t.steps {
		step := *s
		step.pauses, step.clocks, step.unknown = pauses, clocks, unknown
		if holds(s) {
			var h expr.Held
			if i < len(list) {
				h = list[i]
			}
			step.hold(h)
		}
		of.steps = append(of.steps, &step)
	}
	return of
}

// Continued returns the timing for a row for which these occurrences of steps have fired last, by the names of the
// steps. If the delays of a step that repeats have changed since then, its next times count from that occurrence.
func (t *Timing) Continued(since time.Time, steps []Step, fired map[string]Occurrence) *Timing {
	of := &Timing{steps: slices.Clone(t.steps), clocks: t.clocks}
	for i, s := range t.steps {
		last := fired[steps[i].Name]
		if !steps[i].Repeats() || last.Number == 0 || last.At.IsZero() {
			continue
		}
		if at, err := s.nth(since, last.Number); err != nil || !at.Equal(last.At) {
			step := *s
			step.last = last
			of.steps[i] = &step
		}
	}
	return of
}

// Nth returns an occurrence of a step by its number, or none if the step does not fire so often. step is the
// index in Rule.Steps. Returns ErrNoWork as Around does.
func (t *Timing) Nth(step int, since time.Time, number int) (Occurrence, error) {
	s := t.steps[step]
	if number > s.limit {
		return Occurrence{}, nil
	}
	at, err := s.nth(since, number)
	switch {
	case err != nil && number == 1 && !errors.Is(err, errNever):
		return Occurrence{}, err
	case err != nil:
		return Occurrence{}, nil //nolint:nilerr // the occurrence does not exist
	}
	return Occurrence{number, at}, nil
}

// Around returns the last occurrence of a step at or before an instant, and the first one after it. It finds
// them without looking at those before. Returns ErrNoWork if the calendar has too little working time for the
// first occurrence. Occurrences for which it has too little do not exist.
func (t *Timing) Around(step int, since, at time.Time) (last, next Occurrence, err error) {
	s := t.steps[step]
	last = s.last
	from := last.At
	if last.Number == 0 || last.At.After(at) {
		if last, err = t.Nth(step, since, 1); err != nil || last.Number == 0 || last.At.After(at) {
			return Occurrence{}, last, err
		}
		from, _ = s.begin(since)
	}
	if first := last.Number; s.limit > first {
		most := 1 + (at.Unix()-from.Unix()+3*daySeconds)/s.every.pace()
		later := func(n int) bool { // reports whether the occurrence n+1 after the first one is after the instant
			is, err := s.nth(since, first+n+1)
			return err != nil || is.After(at)
		}
		last.Number += sort.Search(min(int(most), s.limit-first), later)
		if last.At, err = s.nth(since, last.Number); err != nil {
			return last, next, err
		}
	}
	next, err = t.Nth(step, since, last.Number+1)
	return last, next, err
}

// Earliest returns a delay that SQL can add to the since of any row, which is negative for a step before it:
// the step never fires before. If the delay is not Exact, it is a lower bound.
func (t *Timing) Earliest(step int) time.Duration { return t.steps[step].earliest() }

// Exact reports whether a step fires once, Earliest after the since of a row.
func (t *Timing) Exact(step int) bool {
	s := t.steps[step]
	steady := s.first.days == 0 || s.shift() == 0 // a day has 24 hours
	plain := s.first == move{seconds: s.first.seconds, days: s.first.days}
	return s.limit == 1 && !s.timed && !s.interval && steady && plain
}

// EarliestFrom returns the smallest Earliest of a step and those after it: steps in different units
// need not be due in their order.
func (t *Timing) EarliestFrom(step int) time.Duration {
	least := t.steps[step].earliest()
	for _, s := range t.steps[step:] {
		least = min(least, s.earliest())
	}
	return least
}

// varies reports whether the data of a row decide when a step comes after since.
func (t *Timing) varies(step int) bool {
	s := t.steps[step]
	return s.interval || s.calendars != nil || t.zone.sql != ""
}

// stepTiming is the timing of one step.
type stepTiming struct {
	*clocks                        // of the rule, or of the row
	calendar  *calendar            // nil: the step has none
	calendars map[string]*calendar // that the data name; nil: they name none
	named     heldName             // with calendars
	unknown   *UnknownName         // why the step has no time for a row; nil: it has
	first     move                 // from since to the first occurrence
	interval  bool                 // the data hold the delay to the first occurrence; first is its lower bound
	length    expr.Length
	every     move // to the next one
	paced     bool // the data hold every
	limit     int  // the number of occurrences
	counted   bool // the data hold limit
	// last is the last occurrence that has fired, if it does not have the instant that it would have by the delays of
	// now. Those after it count from it.
	last     Occurrence
	timed    bool // occurrences are at a time of day
	clock    time.Duration
	earliest func() time.Duration
	pauses   []Pause // of the row
}

// maxTimes bounds how often a step fires for a row.
const maxTimes = 999_999_999

const daySeconds = int64(day / time.Second)

// move is a Delay in one direction, of which one field is set at most. Or it is a length that the data hold: it has
// months, days and a span that passes after them.
type move struct {
	seconds      int64
	days, months int
	span         time.Duration
	workdays     int
	work         time.Duration
}

// move returns the delay, in the direction of a sign.
func (d Delay) move(sign int) move {
	return move{
		seconds: int64(sign) * int64(d.Duration/time.Second), days: sign * (d.Days + 7*d.Weeks), months: sign * d.Months,
		workdays: sign * d.BusinessDays, work: time.Duration(sign) * d.BusinessTime,
	}
}

// business reports whether a move counts in business time.
func (m move) business() bool { return m.workdays != 0 || m.work != 0 }

// pace returns about how many seconds a move takes, at least: n moves take 3 days less at most.
func (m move) pace() int64 {
	month := 28
	if m.months < 0 {
		month = 31
	}
	pace := m.seconds + daySeconds*int64(m.days+month*m.months+m.workdays) + int64((m.work+m.span)/time.Second)
	if m.span < 0 {
		pace-- // of a second that is not whole
	}
	return pace
}

// ends reports whether n moves of a length lead beyond lastDue from each instant, or beyond what can be computed.
func (m move) ends(n int) bool {
	const far = 2200 * 366
	most := func(size int64, limit int64) bool { return size != 0 && int64(n) > limit/max(size, -size) }
	return most(m.pace(), far*daySeconds) || most(int64(m.months), 100*far) || most(int64(m.days), 100*far) ||
		most(int64(m.span/time.Second), 100*far*daySeconds)
}

// again returns the move of a length from one time of a step to the next. It is at least minEvery, and whole days in a
// step with a time of day. Returns false for a length that is not longer than nothing.
func again(l expr.Length, timed bool) (m move, repeats bool) {
	m = move{months: l.Months, days: l.Days, span: l.Time}
	if timed {
		m.days, m.span = m.days+int(l.Time/day), 0
		if l.Time%day > 0 {
			m.days++
		}
	}
	switch pace := m.pace(); {
	case pace >= int64(minEvery/time.Second):
		return m, true
	case pace > 0 || m.months == 0 && m.days == 0 && m.span > 0:
		return move{span: minEvery}, true
	}
	return m, false
}

// hold takes the values that the data of a row hold.
func (s *stepTiming) hold(h expr.Held) {
	if s.calendars != nil && s.unknown == nil {
		s.calendar, s.unknown = s.calendarFor(h.Calendar)
	}
	if s.counted && h.Times != nil {
		s.limit = int(min(max(*h.Times, 0), maxTimes))
	}
	if s.paced {
		repeats := false
		if h.Every != nil {
			s.every, repeats = again(*h.Every, s.timed)
		}
		if !repeats {
			s.limit = min(s.limit, 1)
		}
	}
	if !s.interval {
		return
	}
	if h.After == nil {
		s.limit = 0
		return
	}
	s.length = *h.After
}

// nth returns the instant of an occurrence. The first one counts from since. Those after it count from the first one,
// or by months from since: a month after January 31, and two. Those after s.last count from it.
func (s *stepTiming) nth(since time.Time, n int) (at time.Time, err error) {
	switch {
	case s.unknown != nil:
		return since, s.unknown
	case n == s.last.Number:
		return s.last.At, nil
	}
	from, by := since, s.first
	next := s.timed // whether the time of day is still to be found
	goesOn := s.last.Number > 0 && n > s.last.Number
	switch {
	case n > 1 && s.paced && s.every.ends(n-1):
		return since, errNever
	case n == 1:
		at, err = s.begin(since)
	case s.monthly() && !goesOn:
		if _, err = s.begin(since); err == nil {
			at = s.addDate(since, s.months()+(n-1)*s.every.months, 0)
		}
	default:
		if from = s.last.At; goesOn {
			n -= s.last.Number - 1
		} else if from, err = s.nth(since, 1); err != nil {
			return from, err
		}
		by, next = s.every, false
		if s.timed {
			at, err = s.repeated(from, n)
		} else {
			at, err = s.add(from, s.every, n-1)
		}
	}
	if len(s.pauses) > 0 && err == nil {
		was := at
		at, err = s.resumed(grid.Later(from, since), at, by.business()) // times before since do not move
		next = next || s.timed && !at.Equal(was)
	}
	if next && err == nil {
		at, err = s.next(at)
	}
	if s.timed && err == nil {
		at, err = s.running(at)
	}
	if s.paced && err == nil && !at.Before(lastDue) {
		return at, errNever
	}
	return at.UTC(), err
}

// monthly reports whether occurrences are counted from since by months.
func (s *stepTiming) monthly() bool {
	return s.months() != 0 && s.every.months != 0 && s.every == move{months: s.every.months}
}

// months returns the delay to the first occurrence if it is months alone, or 0.
func (s *stepTiming) months() int {
	switch {
	case !s.interval:
		return s.first.months
	case s.length == expr.Length{Months: s.length.Months}:
		return s.length.Months
	}
	return 0
}

// repeated returns the instant of an occurrence after the first one, at the time of day of the step. It counts the
// days from that of the first one: its time of day may be outside of working hours, and a day may have 23 hours.
func (s *stepTiming) repeated(first time.Time, n int) (time.Time, error) {
	clocks := s.clocks
	if s.calendar != nil {
		clocks = s.calendar.clocks
	}
	today := clocks.today(first)
	n--
	if m := s.every; m.workdays != 0 {
		var found bool
		if today, found = s.calendar.workday(today, n*m.workdays); !found {
			return time.Time{}, ErrNoWork
		}
	} else {
		today = addMonths(today, n*m.months).AddDate(0, 0, n*m.days)
	}
	for range farDays {
		if s.calendar == nil || s.calendar.opens(today) {
			return clocks.instant(today, s.clock), nil
		}
		today = today.AddDate(0, 0, 1)
	}
	return time.Time{}, ErrNoWork
}

// begin returns the instant of the first occurrence, without the time of day.
func (s *stepTiming) begin(since time.Time) (time.Time, error) {
	if !s.interval {
		return s.add(since, s.first, 1)
	}
	at := since
	if s.length.Months != 0 || s.length.Days != 0 {
		at = s.addDate(since, s.length.Months, s.length.Days)
	}
	at = at.Add(s.length.Time)
	if at.Before(firstDue) || !at.Before(lastDue) {
		return at, errNever
	}
	return at, nil
}

// firstDue and lastDue bound the instants of a delay that the data hold: those of expr.FirstSince and expr.LastSince.
var (
	firstDue = time.Date(1, time.January, 1, 0, 0, 0, 0, time.UTC)
	lastDue  = time.Date(2200, time.January, 1, 0, 0, 0, 0, time.UTC)
)

// errNever is the error of an instant outside of the bounds, which stands for never: such as 2147483647 minutes.
var errNever = errors.New("the data hold a delay that stands for never")

// add returns the instant some moves after another one.
func (s *stepTiming) add(from time.Time, m move, n int) (time.Time, error) {
	switch {
	case m.days != 0 || m.months != 0 || m.span != 0:
		if m.days != 0 || m.months != 0 {
			from = s.addDate(from, n*m.months, n*m.days)
		}
		seconds, rest := int64(m.span/time.Second), int64(m.span%time.Second)
		return time.Unix(from.Unix()+int64(n)*seconds, int64(from.Nanosecond())+int64(n)*rest), nil
	case m.workdays != 0:
		return s.calendar.addWorkdays(from, n*m.workdays)
	case m.work != 0:
		if n > int(farDays*day/max(m.work, -m.work)) {
			return time.Time{}, ErrNoWork
		}
		return s.calendar.addTime(from, time.Duration(n)*m.work)
	}
	return time.Unix(from.Unix()+int64(n)*m.seconds, int64(from.Nanosecond())), nil
}

// next returns the first instant at or after another one at which clocks show the time of day of the step. In
// business time, it is one of a working day.
func (s *stepTiming) next(at time.Time) (time.Time, error) {
	clocks := s.clocks
	if s.calendar != nil {
		clocks = s.calendar.clocks
	}
	today := clocks.today(at)
	for range farDays {
		is := clocks.instant(today, s.clock)
		if !is.Before(at) && (s.calendar == nil || s.calendar.opens(today)) {
			return is, nil
		}
		today = today.AddDate(0, 0, 1)
	}
	return time.Time{}, ErrNoWork
}

// least returns a lower bound of what the first move adds to any instant. A month has about 30.44 days, and a
// number of months at most 4 days more or less than that.
func (s *stepTiming) least() time.Duration {
	const month = 2_629_746 * time.Second
	m := s.first
	if m.business() && s.calendars != nil {
		var all []time.Duration
		for _, c := range s.calendars {
			all = append(all, (&stepTiming{clocks: s.clocks, calendar: c, first: m}).least())
		}
		return slices.Min(all)
	}
	switch {
	case m.workdays < 0 || m.work < 0:
		return -s.calendar.farthest(-m.workdays, -m.work)
	case m.workdays > 0:
		return s.calendar.leastDays(m.workdays)
	case m.work > 0:
		return s.calendar.leastTime(m.work)
	case m.days != 0:
		return time.Duration(m.days)*day - s.shift()
	case m.months != 0:
		return time.Duration(m.months)*month - 4*day - s.shift()
	}
	return time.Duration(m.seconds) * time.Second
}
