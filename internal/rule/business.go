package rule

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prescient-go/prescient/slots/grid"
)

// defaultHours are the working hours of a Calendar without Hours.
const defaultHours = "mon-fri 00:00-24:00"

// calendar is a Calendar to compute with.
type calendar struct {
	*clocks
	week     [7][]span // the working hours of each weekday, from Sunday
	closed   []closing
	workdays []closing // no holidays, although closed or national has them
	national []lawful
	years    sync.Map // the holidays of a year, map[dayOfYear]*closedDay by int
	sums     sync.Map // the working days and the working time of a year, *workYear by int
}

// span is a part of a day. The end is exclusive, and at most 24h.
type span struct{ from, to time.Duration }

// closing says that work ends on a day at a time of day, or does not begin.
type closing struct {
	first, last int // years; 0: there is none
	except      []int
	dayOfYear
	from               time.Duration
	name, source, page string
}

// in reports whether a closing is one of a year.
func (c closing) in(year int) bool {
	return year >= c.first && (c.last == 0 || year <= c.last) && !slices.Contains(c.except, year)
}

type dayOfYear struct {
	month time.Month
	day   int
}

// compile checks a calendar.
func (c Calendar) compile() (*calendar, error) {
	zone, zoneErr := clocksOf(c.Timezone)
	national, holidayErr := publicHolidays(c.Country, c.Region)
	week, hoursErr := parseHours(cmp.Or(c.Hours, defaultHours))
	b := &calendar{clocks: zone, week: week, national: national}
	errs := []error{within("timezone", zoneErr), holidayErr, within("hours", hoursErr)}
	for _, text := range c.Holidays {
		h, err := parseHoliday(text)
		h.source = "holidays"
		errs = append(errs, within("holidays", err))
		b.closed = append(b.closed, h)
	}
	for _, f := range c.Files {
		for _, d := range f.Days {
			h, err := parseHoliday(d.Day)
			h.first, h.last, h.except = max(h.first, d.From), max(h.last, d.Until), d.Except
			h.name, h.source = d.Name, "file "+f.Name
			errs = append(errs, within("holidays", err))
			b.closed = append(b.closed, h)
		}
	}
	for _, text := range c.Workdays {
		w, err := parseHoliday(text)
		if err == nil && strings.Contains(text, " from ") {
			err = fmt.Errorf("%q: want a whole day, such as 2026-12-24", text)
		}
		errs = append(errs, within("workdays", err))
		b.workdays = append(b.workdays, w)
	}
	err := errors.Join(errs...)
	if err == nil && !b.ever() {
		err = errors.New("it has no working time: each of its working days is a holiday")
	}
	return b, err
}

// ever reports whether a calendar has working time in the 30 years from 2020 on.
func (c *calendar) ever() bool {
	for range c.work(time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC), false) {
		return true
	}
	return false
}

// within names the field of an error.
func within(field string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", field, err)
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// parseHours reads working hours: "mon-thu 09:00-12:00,13:00-17:00; fri 09:00-15:00".
func parseHours(text string) (week [7][]span, err error) {
	for part := range strings.SplitSeq(text, ";") {
		fields := strings.Fields(part)
		if len(fields) != 2 {
			return week, fmt.Errorf(`%q: want days and hours, such as "mon-fri 09:00-17:00"`, strings.TrimSpace(part))
		}
		days, err := parseDays(fields[0])
		if err != nil {
			return week, err
		}
		spans, err := parseSpans(fields[1])
		if err != nil {
			return week, err
		}
		for _, d := range days {
			if week[d] != nil {
				return week, fmt.Errorf("%s has hours twice", weekdays[d])
			}
			week[d] = spans
		}
	}
	return week, nil
}

// parseDays reads days of the week: "mon-thu,sat".
func parseDays(text string) (days []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, to := slices.Index(weekdays, strings.ToLower(first)), slices.Index(weekdays, strings.ToLower(last))
		if !isRange {
			to = from
		}
		if from < 0 || to < 0 {
			return nil, fmt.Errorf("%q: want days such as mon, mon-fri or mon,wed, in three letters each", part)
		}
		for d := from; ; d = (d + 1) % len(weekdays) {
			days = append(days, d)
			if d == to {
				break
			}
		}
	}
	return days, nil
}

// parseSpans reads the hours of a day: "09:00-12:00,13:00-17:00".
func parseSpans(text string) (spans []span, err error) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, _ := strings.Cut(part, "-")
		from, err := parseTimeOfDay(first)
		to, endErr := parseTimeOfDay(last)
		switch {
		case err != nil || endErr != nil:
			return nil, fmt.Errorf("%q: want hours such as 09:00-17:00, up to 24:00", part)
		case to <= from:
			return nil, fmt.Errorf("%q: must end after it begins. Hours past midnight are two: "+
				"22:00-24:00 on a day, and 00:00-06:00 on the next", part)
		case len(spans) > 0 && from < spans[len(spans)-1].to:
			return nil, fmt.Errorf("%q: must begin after the hours before it have ended", part)
		}
		spans = append(spans, span{from, to})
	}
	return spans, nil
}

var timeOfDay = regexp.MustCompile(`^([01][0-9]|2[0-4]):([0-5][0-9])$`)

func parseTimeOfDay(text string) (time.Duration, error) {
	m := timeOfDay.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%q: want a time such as 09:00", text)
	}
	hours, _ := strconv.Atoi(m[1])
	minutes, _ := strconv.Atoi(m[2])
	t := time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if t > day {
		return 0, fmt.Errorf("%q: must be at most 24:00", text)
	}
	return t, nil
}

// parseHoliday reads a day without work: "2026-12-24", "12-24" of each year, or the end of a day:
// "12-24 from 12:00".
func parseHoliday(text string) (c closing, err error) {
	date, from, half := strings.Cut(text, " from ")
	at, err := time.Parse(time.DateOnly, date)
	if err == nil {
		c.first, c.last = at.Year(), at.Year()
	} else if at, err = time.Parse(time.DateOnly, "2000-"+date); err != nil { // a leap year
		return c, fmt.Errorf("%q: want a day such as 2026-12-24, 12-24 for each year, or 12-24 from 12:00", text)
	}
	c.dayOfYear = dayOfYear{at.Month(), at.Day()}
	if half {
		if c.from, err = parseTimeOfDay(from); err != nil {
			return c, fmt.Errorf("%q: want a time of day such as 12-24 from 12:00", text)
		}
	}
	return c, nil
}

// hours returns the working hours of a day.
func (c *calendar) hours(at time.Time) []span {
	spans := c.week[at.Weekday()]
	if len(spans) == 0 {
		return nil
	}
	year, month, d := at.Date()
	if closed := c.year(year)[dayOfYear{month, d}]; closed != nil && !closed.works {
		return before(spans, closed.from)
	}
	return spans
}

// before returns the parts of spans before a time of day.
func before(spans []span, end time.Duration) (left []span) {
	for _, s := range spans {
		if s.from < end {
			left = append(left, span{s.from, min(s.to, end)})
		}
	}
	return left
}

// closedDay is a day on which work ends at a time of day, or does not begin.
type closedDay struct {
	from  time.Duration
	why   []closing
	works bool // the calendar's workdays take it off
}

// year returns the holidays of a year, and the days on which they are observed. Those of a neighbouring year
// may be observed in this one.
func (c *calendar) year(year int) map[dayOfYear]*closedDay {
	if known, ok := c.years.Load(year); ok {
		return known.(map[dayOfYear]*closedDay)
	}
	days := map[dayOfYear]*closedDay{}
	add := func(h closing) {
		if days[h.dayOfYear] == nil {
			days[h.dayOfYear] = &closedDay{from: h.from}
		}
		closed := days[h.dayOfYear]
		closed.from, closed.why = min(closed.from, h.from), append(closed.why, h)
	}
	for _, holiday := range c.national {
		for y := year - 1; y <= year+1; y++ {
			actual, observed := holiday.Calc(y)
			for i, at := range []time.Time{actual, observed} {
				if !at.IsZero() && at.Year() == year && (i == 0 || !at.Equal(actual)) {
					add(closing{
						dayOfYear: dayOfYear{at.Month(), at.Day()},
						name:      holiday.Name, source: holiday.source, page: holiday.page,
					})
				}
			}
		}
	}
	for _, h := range c.closed {
		if h.in(year) {
			add(h)
		}
	}
	for _, w := range c.workdays {
		if closed := days[w.dayOfYear]; closed != nil && w.in(year) {
			closed.works = true
		}
	}
	c.years.Store(year, days)
	return days
}

// farDays bounds the days that a computation looks at: 30 years.
const farDays = farYears * 366

// farYears bounds the years that a computation looks at.
const farYears = 30

// interval is a piece of working time.
type interval struct{ from, to time.Time }

// work yields the days with working time from an instant on, each with its working time from then on. Back,
// it yields those until the instant, the last first, with their working time until then, the last first.
func (c *calendar) work(since time.Time, back bool) iter.Seq2[time.Time, []interval] {
	return func(yield func(time.Time, []interval) bool) {
		step := 1
		if back {
			step = -1
		}
		today := c.today(since)
		for range farDays {
			var list []interval
			for i := range c.intervals(today, back) {
				switch {
				case back && !i.from.After(since):
					list = append(list, interval{i.from, grid.Earlier(i.to, since)})
				case !back && since.Before(i.to):
					list = append(list, interval{grid.Later(i.from, since), i.to})
				}
			}
			if list != nil && !yield(today, list) {
				return
			}
			today = today.AddDate(0, 0, step)
		}
	}
}

// addWorkdays returns the same time of day some working days after an instant, or before it if n is
// negative. An instant outside of the hours counts as the next opening, or back as the closing before. On
// the last day, a time of day outside of the hours becomes the next opening of that day, or else its closing.
// Back, it becomes the closing before, or else the opening.
func (c *calendar) addWorkdays(since time.Time, n int) (time.Time, error) {
	back := n < 0
	today, clock, found := c.begin(since, back)
	if found && n != 0 {
		today, found = c.workday(today, n)
	}
	if !found {
		return time.Time{}, ErrNoWork
	}
	at := c.instant(today, clock)
	last := at
	for i := range c.intervals(today, back) {
		switch {
		case back && !at.Before(i.from):
			return grid.Earlier(at, i.to), nil
		case !back && at.Before(i.to):
			return grid.Later(at, i.from), nil
		}
		last = i.nearest(!back)
	}
	return last, nil
}

// begin returns the day and the time of day from which working days count.
func (c *calendar) begin(since time.Time, back bool) (today time.Time, clock time.Duration, found bool) {
	for today, list := range c.work(since, back) {
		return today, min(c.wall(list[0].nearest(back)).Sub(today), day), true
	}
	return today, 0, false
}

// workYear has the working days and the working time of a year, from its beginning to the end of each day of the year.
// A delay that ends years later is found without looking at each day before.
type workYear struct {
	days [367]int
	time [367]time.Duration
}

// yearOfWork returns the working days and the working time of a year.
func (c *calendar) yearOfWork(year int) *workYear {
	known, ok := c.sums.Load(year)
	if !ok {
		y := &workYear{}
		for d := firstOf(year); d.Year() == year; d = d.AddDate(0, 0, 1) {
			n := d.YearDay()
			y.days[n], y.time[n] = y.days[n-1], y.time[n-1]
			for i := range c.intervals(d, false) {
				y.days[n] = y.days[n-1] + 1
				y.time[n] += i.to.Sub(i.from)
			}
		}
		known, _ = c.sums.LoadOrStore(year, y)
	}
	return known.(*workYear)
}

func firstOf(year int) time.Time { return time.Date(year, time.January, 1, 0, 0, 0, 0, time.UTC) }

// lastOf returns the last day of a year.
func lastOf(year int) time.Time { return firstOf(year+1).AddDate(0, 0, -1) }

// opens reports whether a day has working time.
func (c *calendar) opens(today time.Time) bool {
	y, n := c.yearOfWork(today.Year()), today.YearDay()
	return y.days[n] > y.days[n-1]
}

// workday returns the nth working day after a day, or before it if n is negative.
func (c *calendar) workday(today time.Time, n int) (day time.Time, found bool) {
	for year := today.Year(); year >= today.Year()-farYears && year <= today.Year()+farYears; {
		y, last := c.yearOfWork(year), lastOf(year).YearDay()
		begin, end := 0, last // the days between which those of n are
		switch {
		case year == today.Year() && n > 0:
			begin = today.YearDay()
		case year == today.Year():
			end = today.YearDay() - 1
		}
		all := y.days[end] - y.days[begin]
		switch {
		case n > all:
			n, year = n-all, year+1
			continue
		case -n > all:
			n, year = n+all, year-1
			continue
		}
		nth := y.days[begin] + n
		if n < 0 {
			nth = y.days[end] + n + 1
		}
		before := sort.Search(last, func(i int) bool { return y.days[i+1] >= nth })
		return firstOf(year).AddDate(0, 0, before), true
	}
	return today, false
}

// workedIn returns the day on which so much working time has passed since the beginning of a day, and what is left of
// it then. Back, it counts from the end of the day.
func (c *calendar) workedIn(
	today time.Time, span time.Duration, back bool,
) (day time.Time, left time.Duration, found bool) {
	for year := today.Year(); year >= today.Year()-farYears && year <= today.Year()+farYears; {
		y, last := c.yearOfWork(year), lastOf(year).YearDay()
		begin, end := 0, last
		if year == today.Year() && back {
			end = today.YearDay()
		} else if year == today.Year() {
			begin = today.YearDay() - 1
		}
		if all := y.time[end] - y.time[begin]; span > all {
			span -= all
			if year++; back {
				year -= 2
			}
			continue
		}
		if back {
			n := sort.Search(end, func(i int) bool { return y.time[end]-y.time[end-1-i] >= span })
			return firstOf(year).AddDate(0, 0, end-1-n), span - (y.time[end] - y.time[end-n]), true
		}
		n := begin + 1 + sort.Search(end-begin, func(i int) bool { return y.time[begin+1+i]-y.time[begin] >= span })
		return firstOf(year).AddDate(0, 0, n-1), span - (y.time[n-1] - y.time[begin]), true
	}
	return today, 0, false
}

// intervals yields the working time of a day. Back, it yields the last interval first. It leaves out hours
// that clocks skip.
func (c *calendar) intervals(today time.Time, back bool) iter.Seq[interval] {
	return func(yield func(interval) bool) {
		spans := c.hours(today)
		for n := range spans {
			s := spans[n]
			if back {
				s = spans[len(spans)-1-n]
			}
			i := interval{c.instant(today, s.from), c.instant(today, s.to)}
			if i.from.Before(i.to) && !yield(i) {
				return
			}
		}
	}
}

// nearest returns the end of an interval at which a count begins.
func (i interval) nearest(back bool) time.Time {
	if back {
		return i.to
	}
	return i.from
}

// addTime returns the instant from which a span of working time has passed since another one. A negative
// span counts back.
func (c *calendar) addTime(since time.Time, span time.Duration) (time.Time, error) {
	back, left := span < 0, max(span, -span)
	today := c.today(since)
	for i := range c.intervals(today, back) { // what has passed of the first day does not count
		switch {
		case back && since.Before(i.to):
			left += i.to.Sub(grid.Later(i.from, since))
		case !back && since.After(i.from):
			left += grid.Earlier(i.to, since).Sub(i.from)
		}
	}
	today, left, found := c.workedIn(today, left, back)
	if !found {
		return time.Time{}, ErrNoWork
	}
	for i := range c.intervals(today, back) {
		switch length := i.to.Sub(i.from); {
		case left > length:
			left -= length
		case back:
			return i.to.Add(-left), nil
		default:
			return i.from.Add(left), nil
		}
	}
	return time.Time{}, ErrNoWork
}

// passed returns the working time between two instants.
func (c *calendar) passed(from, to time.Time) (sum time.Duration) {
	for _, list := range c.work(from, false) {
		for _, i := range list {
			if !i.from.Before(to) {
				return sum
			}
			sum += grid.Earlier(i.to, to).Sub(i.from)
		}
	}
	return sum
}

// leastDays returns a lower bound of what addWorkdays adds to any instant.
func (c *calendar) leastDays(n int) time.Duration {
	if c.uniform() {
		return max(time.Duration(n)*day-c.shift(), 0)
	}
	open, end := c.bounds()
	return max(time.Duration(n-1)*day+day-end+open-c.shift(), 0)
}

// leastTime returns a lower bound of what addTime adds to any instant. Longer than a day's hours, it
// has at least one night in it, and so on.
func (c *calendar) leastTime(work time.Duration) time.Duration {
	open, end := c.bounds()
	longest := c.shift()
	for _, spans := range c.week {
		var sum time.Duration
		for _, s := range spans {
			sum += s.to - s.from
		}
		longest = max(longest, sum+c.shift())
	}
	nights := (work - 1) / longest
	return max(work, work+nights*(day-end+open)-c.shift())
}

// uniform reports whether all working days have the same hours.
func (c *calendar) uniform() bool {
	var same []span
	for _, spans := range c.week {
		if len(spans) > 0 && len(same) > 0 && !slices.Equal(spans, same) {
			return false
		}
		if len(spans) > 0 {
			same = spans
		}
	}
	return !slices.ContainsFunc(c.closed, func(h closing) bool { return h.from > 0 })
}

// bounds returns the earliest opening and the latest closing of all days.
func (c *calendar) bounds() (open, end time.Duration) {
	open = day
	for _, spans := range c.week {
		if len(spans) > 0 {
			open, end = min(open, spans[0].from), max(end, spans[len(spans)-1].to)
		}
	}
	return open, end
}

// farthest returns an upper bound of the time from which addWorkdays or addTime count back to an instant, in
// the years from 1990 to 2200: need is the working days, or the working time. It looks at all days with
// working time, and at the days between them.
func (c *calendar) farthest(days int, work time.Duration) time.Duration {
	need := work + c.shift()
	if days > 0 {
		need = time.Duration(days + 1)
	}
	type piece struct {
		today time.Time
		work  time.Duration
	}
	var window []piece // the shortest that has enough, of days on end
	var sum, longest time.Duration
	today := time.Date(1990, time.January, 1, 0, 0, 0, 0, time.UTC)
	for ; today.Year() < 2200; today = today.AddDate(0, 0, 1) {
		if sum >= need { // an instant may be the end of a day without work
			longest = max(longest, today.Sub(window[0].today))
		}
		p := piece{today: today}
		for _, s := range c.hours(today) {
			p.work += s.to - s.from
		}
		if days > 0 && p.work > 0 {
			p.work = 1
		}
		if p.work > 0 {
			window, sum = append(window, p), sum+p.work
		}
		for len(window) > 0 && sum-window[0].work >= need {
			window, sum = window[1:], sum-window[0].work
		}
	}
	if longest == 0 {
		return farDays * day
	}
	return longest + day + c.shift()
}
