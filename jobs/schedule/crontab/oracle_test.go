package crontab_test

import (
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs/schedule/crontab"
)

// The oracle looks at the clocks of a zone minute after minute and applies the rule of the package
// documentation to what it has seen. It shares nothing with the implementation: no parser, no
// search, no offsets.

func TestACrontabIsWhatTheClocksOfItsZoneShow(t *testing.T) {
	t.Parallel()
	for zone, year := range map[string]int{
		"UTC":                  2099, // no leap year, and 2100 neither
		"Europe/Berlin":        2027,
		"America/New_York":     2047, // a leap year beyond the years that zone files list
		"Australia/Lord_Howe":  2026, // by half an hour
		"Antarctica/Troll":     2025, // by two hours
		"America/Sao_Paulo":    2017, // at midnight, which the clocks skip
		"Africa/Cairo":         2023, // likewise, and after years without summer time
		"Asia/Gaza":            2024, // twice back and forth in spring
		"Africa/Casablanca":    2031, // back for Ramadan
		"Pacific/Apia":         2011, // a day does not exist
		"Pacific/Kwajalein":    1993, // likewise
		"America/Caracas":      2007, // a zone that moves by half an hour
		"Asia/Kathmandu":       1985, // by a quarter of an hour
		"America/Scoresbysund": 2023, // a zone that moves and changes its rule
		"Europe/Lisbon":        1992, // likewise
	} {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			clocks := watch(t, zone, time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(year+2, 1, 1, 0, 0, 0, 0, time.UTC))
			random := rand.New(rand.NewPCG(uint64(year), 1))
			for range 25 {
				expr := anExpression(random)
				if want := clocks.oracle(expr); !agree(t, random, clocks, expr.String(), want) {
					return
				}
			}
		})
	}
}

// What an exclusion takes in is what the clocks show, minute after minute; summer time changes
// nothing about it.
func TestWhatIsLeftOutIsWhatTheClocksShow(t *testing.T) {
	t.Parallel()
	for zone, year := range map[string]int{
		"UTC": 2099, "Europe/Berlin": 2027, "Australia/Lord_Howe": 2026, "America/Sao_Paulo": 2017, "Asia/Gaza": 2024, "Pacific/Apia": 2011,
	} {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			clocks := watch(t, zone, time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(year+2, 1, 1, 0, 0, 0, 0, time.UTC))
			location, err := time.LoadLocation(zone)
			if err != nil {
				t.Fatal(err)
			}
			random := rand.New(rand.NewPCG(uint64(year), 2))
			for range 12 {
				expr, texts := anExpression(random), []string(nil)
				var excluded []func(minute int) bool
				for range 1 + random.IntN(3) {
					text, takes := anExclusion(random, year)
					texts, excluded = append(texts, text), append(excluded, takes)
				}
				start, end := clocks.anInstant(random), clocks.anInstant(random)
				want := slices.DeleteFunc(clocks.oracle(expr), func(at time.Time) bool {
					minute := clocks.shown[int(at.Sub(clocks.start)/time.Minute)]
					taken := slices.ContainsFunc(excluded, func(takes func(int) bool) bool { return takes(minute) })
					return taken || at.Before(start) || !at.Before(end)
				})
				if len(want) == 0 {
					continue // it takes a tenth of a second to find that out, each time
				}
				c, err := parse(t, expr.String(), zone).Except(texts, location)
				if err != nil {
					t.Fatal(err)
				}
				name := expr.String() + " without " + strings.Join(texts, " | ")
				if !agreeOn(t, random, clocks, name, c.Within(start, end), want) {
					return
				}
			}
		})
	}
}

// anExclusion makes one up, and tells which local times, in minutes, it takes in.
func anExclusion(random *rand.Rand, year int) (string, func(minute int) bool) {
	day := time.Date(year, 1, 1+random.IntN(730), 0, 0, 0, 0, time.UTC)
	last := day.AddDate(0, 0, random.IntN(40))
	within := func(minute int) bool {
		at := time.Unix(int64(minute)*60, 0)
		return !at.Before(day) && at.Before(last.AddDate(0, 0, 1))
	}
	switch random.IntN(4) {
	case 0:
		last = day
		return day.Format(time.DateOnly), within
	case 1:
		return day.Format(time.DateOnly) + ".." + last.Format(time.DateOnly), within
	case 2:
		return "sun,fri-sat", func(minute int) bool {
			weekday := time.Unix(int64(minute)*60, 0).UTC().Weekday()
			return weekday == time.Sunday || weekday >= time.Friday
		}
	}
	e := anExpression(random)
	return e.String(), e.matcher()
}

// agree compares a crontab with its instants, asked for in every way.
func agree(t *testing.T, random *rand.Rand, clocks *clocks, expr string, want []time.Time) bool {
	t.Helper()
	c, err := crontab.Parse(expr, clocks.zone, time.Time{})
	if err != nil {
		t.Errorf("%s", err)
		return false
	}
	return agreeOn(t, random, clocks, expr, c, want)
}

func agreeOn(t *testing.T, random *rand.Rand, clocks *clocks, expr string, c crontab.Crontab, want []time.Time) bool {
	t.Helper()
	for _, window := range clocks.windows(len(want)) {
		want := want[after(want, window[0]):after(want, window[1])]
		if got := slices.Collect(c.Between(window[0], window[1])); !slices.Equal(got, want) {
			t.Errorf("%q in %s (-oracle +crontab):\n%.2000s", expr, clocks.zone, cmp.Diff(want, got))
			return false
		}
	}
	for range 20 {
		at := clocks.anInstant(random)
		earlier, later := after(want, at.Add(-1)), after(want, at)
		if next, ok := c.Next(at); later < len(want) && (!ok || !next.Equal(want[later])) {
			t.Errorf("%q in %s: Next(%s) = %s, want %s", expr, clocks.zone, at, next, want[later])
			return false
		}
		if prev, ok := c.Prev(at); earlier > 0 && (!ok || !prev.Equal(want[earlier-1])) {
			t.Errorf("%q in %s: Prev(%s) = %s, want %s", expr, clocks.zone, at, prev, want[earlier-1])
			return false
		}
		if n := 3; later >= n {
			if diff := cmp.Diff(want[later-n:later], c.Latest(n, clocks.start.Add(-1), at)); diff != "" {
				t.Errorf("%q in %s: the latest up to %s (-oracle +crontab):\n%s", expr, clocks.zone, at, diff)
				return false
			}
		}
	}
	return true
}

// after returns the index of the first instant after another.
func after(instants []time.Time, at time.Time) int {
	return sort.Search(len(instants), func(i int) bool { return instants[i].After(at) })
}

// clocks returns what the clocks of a zone have shown, for each minute.
type clocks struct {
	zone    string
	start   time.Time
	changes []time.Time // of the time
	shown   []int       // by minutes since start: the local time, in minutes since 1970
	first   []int       // by minutes since the first local time: when it was first shown, an index of shown, or never
}

const never = -1

func watch(t *testing.T, zone string, start, end time.Time) *clocks {
	t.Helper()
	location, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	minutes := int(end.Sub(start) / time.Minute)
	c := &clocks{zone: zone, start: start, shown: make([]int, 0, minutes), first: make([]int, 0, minutes+2*24*60)}
	for at := start; at.Before(end); at = at.Add(time.Minute) {
		local := at.In(location)
		year, month, day := local.Date()
		hour, minute, second := local.Clock()
		if second != 0 {
			t.Fatalf("%s: it is %s", zone, local)
		}
		i := len(c.shown)
		c.shown = append(c.shown, int(time.Date(year, month, day, hour, minute, 0, 0, time.UTC).Unix()/60))
		if i > 0 && c.shown[i] != c.shown[i-1]+1 {
			c.changes = append(c.changes, at)
		}
		for len(c.first) <= c.shown[i]-c.shown[0] {
			c.first = append(c.first, never)
		}
		if first := &c.first[c.shown[i]-c.shown[0]]; *first == never {
			*first = i
		}
	}
	return c
}

func (c *clocks) at(minutes int) time.Time { return c.start.Add(time.Duration(minutes) * time.Minute) }

// windows returns where to compare: everywhere, or around the changes of time where there are too
// many instants.
func (c *clocks) windows(instants int) [][2]time.Time {
	end := c.at(len(c.shown) - 1)
	if instants < 20_000 {
		return [][2]time.Time{{c.start.Add(-1), end}}
	}
	const day = 24 * time.Hour
	windows := [][2]time.Time{{c.start.Add(-1), c.start.Add(day)}, {end.Add(-day), end}}
	for _, change := range c.changes {
		windows = append(windows, [2]time.Time{change.Add(-day), change.Add(2 * day)})
	}
	return windows
}

// anInstant is anywhere, often a whole minute, and often in the hours around a change of time.
func (c *clocks) anInstant(random *rand.Rand) time.Time {
	at := c.start.Add(time.Duration(random.Int64N(int64(len(c.shown)) * int64(time.Minute))))
	if n := len(c.changes); n > 0 && random.IntN(2) == 0 {
		at = c.changes[random.IntN(n)].Add(time.Duration(random.Int64N(int64(4*time.Hour))) - 2*time.Hour)
	}
	if random.IntN(2) == 0 {
		at = at.Truncate(time.Minute)
	}
	return at
}

// oracle returns the instants of an expression, oldest first.
func (c *clocks) oracle(e expression) []time.Time {
	matches := e.matcher()
	fires := make([]bool, len(c.shown))
	for i, minute := range c.shown {
		fires[i] = !e.fixed && matches(minute)
	}
	for i := range c.first {
		if !e.fixed || !matches(c.shown[0]+i) {
			continue
		}
		for c.first[i] == never {
			i++ // right after the gap
		}
		fires[c.first[i]] = true
	}
	var instants []time.Time
	for i, fires := range fires {
		if fires {
			instants = append(instants, c.at(i))
		}
	}
	return instants
}

// expression is five fields as they are written, and the values they stand for.
type expression struct {
	texts    [5]string
	values   [5][60]bool
	monthday []func(date time.Time) bool // what L, L-3, LW and 15W stand for
	weekday  []func(date time.Time) bool // what friL and fri#2 stand for
	fixed    bool                        // neither minute nor hour has a wildcard or a step
	either   bool                        // both days are restricted
}

func (e expression) String() string { return strings.Join(e.texts[:], " ") }

// matcher tells whether a local time, in minutes, matches. It remembers days, as there are 1440
// questions about each.
func (e expression) matcher() func(minute int) bool {
	days := map[int]bool{}
	return func(minute int) bool {
		if !e.values[0][minute%60] || !e.values[1][minute/60%24] {
			return false
		}
		day := minute / (24 * 60)
		known, ok := days[day]
		if !ok {
			date := time.Unix(int64(minute)*60, 0).UTC()
			is := func(matches func(date time.Time) bool) bool { return matches(date) }
			inMonth := e.values[2][date.Day()] || slices.ContainsFunc(e.monthday, is)
			inWeek := e.values[4][int(date.Weekday())] || slices.ContainsFunc(e.weekday, is)
			known = e.values[3][int(date.Month())] && (inMonth && inWeek || e.either && (inMonth || inWeek))
			days[day] = known
		}
		return known
	}
}

// anExpression makes up an expression that can fire.
func anExpression(random *rand.Rand) expression {
	var e expression
	for i, f := range []struct {
		low, high int
		names     string
		any       int // how many of ten are a plain *
	}{
		{low: 0, high: 59, any: 1},
		{low: 0, high: 23, any: 3},
		{low: 1, high: 31, any: 6},
		{low: 1, high: 12, names: "jan feb mar apr may jun jul aug sep oct nov dec", any: 8},
		{low: 0, high: 7, names: "SUN Mon tue wed thu fri sat", any: 6},
	} {
		e.texts[i] = "*"
		for value := f.low; value <= f.high; value++ {
			e.values[i][value] = true
		}
		if random.IntN(10) >= f.any {
			e.texts[i], e.values[i] = aList(random, f.low, f.high, strings.Fields(f.names))
		}
	}
	if random.IntN(3) == 0 {
		text, matches := aDayOfItsMonth(random)
		e.monthday = append(e.monthday, matches)
		e.texts[2], e.values[2] = beside(random, text, e.texts[2], e.values[2])
	}
	if random.IntN(3) == 0 {
		text, matches := aWeekdayOfItsMonth(random)
		e.weekday = append(e.weekday, matches)
		e.texts[4], e.values[4] = beside(random, text, e.texts[4], e.values[4])
	}
	if len(e.monthday)+len(e.weekday) > 0 && e.texts[2] != "*" && e.texts[4] != "*" && strings.Contains(e.texts[2]+e.texts[4], "*") {
		return anExpression(random) // both have to match, which a 15W on a Sunday never does
	}
	e.values[4][0] = e.values[4][0] || e.values[4][7]
	e.fixed = !strings.ContainsAny(e.texts[0]+e.texts[1], "*/")
	e.either = !strings.Contains(e.texts[2], "*") && !strings.Contains(e.texts[4], "*")
	if !e.values[2][28] && !e.either && len(e.monthday) == 0 {
		e.texts[2] += ",28" // no 30 February
		e.values[2][28] = true
	}
	return e
}

// beside adds an item to a field, or puts it into the place of the field's others.
func beside(random *rand.Rand, item, list string, values [60]bool) (string, [60]bool) {
	switch {
	case list == "*" || random.IntN(2) == 0:
		return item, [60]bool{}
	case random.IntN(2) == 0:
		return item + "," + list, values
	}
	return list + "," + item, values
}

// aDayOfItsMonth makes up an item whose days only the calendar knows.
func aDayOfItsMonth(random *rand.Rand) (string, func(date time.Time) bool) {
	n := 1 + random.IntN(28) // every month has such a day
	switch random.IntN(4) {
	case 0:
		return "L", func(date time.Time) bool { return isLast(date) }
	case 1:
		n := 1 + random.IntN(27)
		return "L-" + strconv.Itoa(n), func(date time.Time) bool {
			return isLast(date.AddDate(0, 0, n)) && date.AddDate(0, 0, n).Month() == date.Month()
		}
	case 2:
		return "LW", func(date time.Time) bool {
			for day := date.AddDate(0, 0, 1); day.Month() == date.Month(); day = day.AddDate(0, 0, 1) {
				if isWorkday(day) {
					return false
				}
			}
			return isWorkday(date)
		}
	}
	return strconv.Itoa(n) + "W", func(date time.Time) bool {
		for _, away := range []int{0, -1, 1, -2, 2} {
			day := time.Date(date.Year(), date.Month(), n+away, 0, 0, 0, 0, time.UTC)
			if day.Month() == date.Month() && isWorkday(day) {
				return day.Day() == date.Day()
			}
		}
		return false
	}
}

// aWeekdayOfItsMonth makes up an item of the day of the week whose days only the calendar knows.
func aWeekdayOfItsMonth(random *rand.Rand) (string, func(date time.Time) bool) {
	day := time.Weekday(random.IntN(7))
	name := day.String()[:3]
	if random.IntN(2) == 0 {
		name = strconv.Itoa(int(day))
	}
	if random.IntN(3) == 0 {
		return name + "L", func(date time.Time) bool {
			return date.Weekday() == day && date.AddDate(0, 0, 7).Month() != date.Month()
		}
	}
	n := 1 + random.IntN(4) // there is not always a fifth
	return name + "#" + strconv.Itoa(n), func(date time.Time) bool {
		return date.Weekday() == day && date.AddDate(0, 0, -7*(n-1)).Month() == date.Month() && date.AddDate(0, 0, -7*n).Month() != date.Month()
	}
}

func isLast(date time.Time) bool { return date.AddDate(0, 0, 1).Month() != date.Month() }

func isWorkday(date time.Time) bool {
	return date.Weekday() != time.Saturday && date.Weekday() != time.Sunday
}

// aList makes up a field, mostly of one item.
func aList(random *rand.Rand, low, high int, names []string) (string, [60]bool) {
	var items []string
	var values [60]bool
	last := high
	if high == 7 {
		last = 6 // a step without an end is one of a week that Sunday begins
	}
	for {
		from := low + random.IntN(high-low+1)
		to := from + random.IntN(high-from+1)
		step := 1 + random.IntN(to-from+1)
		text := func(value int) string {
			if value-low < len(names) && random.IntN(2) == 0 {
				return names[value-low]
			}
			return strconv.Itoa(value)
		}
		switch random.IntN(6) {
		case 0: // *, as an item
			from, to, step = low, high, 1
			items = append(items, "*")
		case 1: // */7
			from, to, step = low, last, 1+random.IntN(last-low+1)
			items = append(items, "*/"+strconv.Itoa(step))
		case 2: // 3-59/7
			items = append(items, strconv.Itoa(from)+"-"+strconv.Itoa(to)+"/"+strconv.Itoa(step))
		case 3: // 3/7
			to = max(from, last)
			step = 1 + random.IntN(to-from+1)
			items = append(items, strconv.Itoa(from)+"/"+strconv.Itoa(step))
		case 4: // 3-5
			step = 1
			items = append(items, text(from)+"-"+text(to))
		default:
			to, step = from, 1
			items = append(items, text(from))
		}
		for value := from; value <= to; value += step {
			values[value] = true
		}
		if random.IntN(3) > 0 {
			return strings.Join(items, ","), values
		}
	}
}
