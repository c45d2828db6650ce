package oracle_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

var zones = []string{
	"UTC", "Europe/Berlin", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/Sao_Paulo",
	"Africa/Cairo", "Pacific/Apia", "America/St_Johns", "Asia/Tokyo",
}

func zone(name string) *time.Location {
	loc, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return loc
}

// random makes random files and rows.
type random struct {
	*rand.Rand
	start time.Time
	days  int
}

func pick[T any](r *random, list []T) T { return list[r.IntN(len(list))] }

func (r *random) chance(percent int) bool { return r.IntN(100) < percent }

func all(days string, spans ...[2]int) map[time.Weekday][][2]int {
	hours := map[time.Weekday][][2]int{}
	for _, d := range days {
		hours[time.Weekday(d-'0')] = spans
	}
	return hours
}

// berlin are the holidays of Berlin.
var berlin = []string{
	"2025-10-03", "2025-12-25", "2025-12-26", "2026-01-01", "2026-03-08", "2026-04-03", "2026-04-06", "2026-05-01", "2026-05-14",
	"2026-05-25", "2026-10-03", "2026-12-25", "2026-12-26", "2027-01-01", "2027-03-08", "2027-03-26", "2027-03-29", "2027-05-01",
	"2027-05-06", "2027-05-17", "2027-10-03", "2027-12-25", "2027-12-26",
	"2028-01-01", "2028-03-08", "2028-04-14", "2028-04-17", "2028-05-01", "2028-05-25", "2028-06-05", "2028-10-03", "2028-12-25",
	"2028-12-26",
}

// calendars returns the calendars of a file.
func (r *random) calendars() []*calendar {
	office := &calendar{
		name: "office", zone: zone("Europe/Berlin"), hours: all("12345", [2]int{540, 1020}),
		closed: map[string]int{"12-24": 0, "12-31": 720},
	}
	office.text = `{timezone: Europe/Berlin, country: DE, region: BE, hours: "mon-fri 09:00-17:00", holidays: [12-24, "12-31 from 12:00"]}`
	for _, d := range berlin {
		office.closed[d] = 0
	}
	lunch := &calendar{name: "lunch", zone: zone("America/New_York"), hours: all("1234", [2]int{480, 720}, [2]int{780, 1050})}
	lunch.hours[time.Friday] = [][2]int{{480, 840}}
	lunch.closed, lunch.open = map[string]int{}, map[string]bool{}
	var holidays, workdays []string
	for range 6 {
		d := r.start.AddDate(0, 0, r.IntN(r.days)).Format("2006-01-02")
		from := pick(r, []int{0, 0, 600, 720, 900})
		if _, known := lunch.closed[d]; !known {
			lunch.closed[d] = from
			if from > 0 {
				d += fmt.Sprintf(" from %02d:%02d", from/60, from%60)
			}
			holidays = append(holidays, `"`+d+`"`)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(lunch.closed)) {
		if r.chance(15) {
			lunch.open[key] = true
			workdays = append(workdays, `"`+key+`"`)
		}
	}
	slices.Sort(workdays)
	lunch.text = fmt.Sprintf(`{timezone: America/New_York, hours: "mon-thu 08:00-12:00,13:00-17:30; fri 08:00-14:00", holidays: [%s], workdays: [%s]}`,
		strings.Join(holidays, ", "), strings.Join(workdays, ", "))
	night := &calendar{name: "night", zone: zone("Africa/Cairo"), hours: all("2345", [2]int{0, 360}, [2]int{1320, 1440})}
	night.hours[time.Monday], night.hours[time.Saturday] = [][2]int{{1320, 1440}}, [][2]int{{0, 360}}
	night.text = `{timezone: Africa/Cairo, hours: "mon 22:00-24:00; tue-fri 00:00-06:00,22:00-24:00; sat 00:00-06:00"}`
	every := &calendar{name: "every", zone: zone("Australia/Lord_Howe"), hours: all("0123456", [2]int{0, 1440})}
	every.text = `{timezone: Australia/Lord_Howe, hours: "mon-sun 00:00-24:00"}`
	list := []*calendar{office, lunch, night, every}
	for _, c := range list {
		c.days = map[time.Time][]span{}
	}
	return list
}

// rule returns a random rule.
func (r *random) rule(name string, calendars []*calendar) *theRule {
	rule := &theRule{
		name: name, zone: zone(pick(r, zones)), look: 5 * time.Minute, atOnce: r.chance(25), repeats: map[string]bool{}, tells: map[string]bool{},
	}
	if r.chance(35) {
		rule.place = pick(r, places)
	}
	rule.since = []*expression{r.since(rule)}
	if r.chance(30) {
		rule.since = append(rule.since, r.since(rule))
	}
	if r.chance(20) {
		rule.since = append(rule.since, beat)
		if r.chance(50) {
			rule.look = time.Duration(1+r.IntN(12)) * time.Hour
		}
	}
	if !rule.lookupSince() && r.chance(20) {
		rule.since = append(rule.since, changed)
	}
	rule.done, rule.where = r.done(rule), pick(r, wheres)
	if r.chance(30) {
		rule.pause = pick(r, holds)
	}
	rule.joinDone = !slices.ContainsFunc(rule.done, func(e *expression) bool { return e.instant != nil }) && r.chance(50)
	rule.joinAll = r.chance(50)
	rule.wantsAlso = rule.look == 5*time.Minute && r.chance(50)
	rule.recovered = r.chance(40) && rule.look == 5*time.Minute
	for range 1 + r.IntN(4) {
		rule.addStep(r, calendars)
	}
	if r.chance(15) {
		acted := "acted_" + name
		rule.done = []*expression{condition(acted, func(r row) (bool, bool) { return r[acted] == true, true }, acted)}
		s := pick(r, rule.steps)
		s.closes, s.sql = true, false
	}
	rule.atOnce = rule.atOnce && !slices.ContainsFunc(rule.done, func(e *expression) bool { return e.lookup })
	rule.met = !rule.atOnce && r.chance(40)
	rule.overdue = pick(r, []string{"fire", "last", "skip", "spread"})
	if rule.overdue == "spread" {
		rule.slots = 2 + r.IntN(6)
	}
	return rule
}

func (rule *theRule) addStep(r *random, calendars []*calendar) {
	s := &step{name: fmt.Sprintf("%s.s%d", rule.name, rule.made+1), before: r.chance(25)}
	s.delay.unit = pick(r, []unit{plain, plain, days, weeks, monthly, businessDays, businessHours})
	s.delay.n = r.amount(s.delay.unit)
	if r.chance(15) {
		s.before, s.delay, s.data = false, delay{}, pick(r, lengths)
		if s.data.lookup && r.chance(50) {
			s.atLeast = 30 * time.Minute
		}
	}
	if s.data == nil && r.chance(25) {
		s.at = fmt.Sprintf("%02d:%02d", r.IntN(24), pick(r, []int{0, 0, 30, 45}))
	}
	if r.chance(35) {
		s.every = &delay{unit: pick(r, []unit{plain, days, weeks, monthly, businessDays, businessHours})}
		s.every.n = max(r.amount(s.every.unit), 20)
		if s.every.unit != plain && s.every.unit != businessHours {
			s.every.n = 1 + r.IntN(3)
		}
		if s.at != "" {
			for s.every.unit == businessHours {
				s.every.unit, s.every.n = businessDays, 1+r.IntN(3)
			}
			if s.every.unit == plain {
				s.every.unit, s.every.n = days, 1+r.IntN(3)
			}
		}
		if r.chance(60) {
			s.times = 1 + r.IntN(6)
		}
		r.holds(s)
	}
	if s.delay.unit >= businessDays || s.every != nil && s.every.unit >= businessDays {
		if s.calendar = pick(r, calendars); r.chance(40) {
			s.region, s.all = pick(r, regions), calendars
		}
	}
	for _, other := range rule.steps { // steps of one unit are in the order of their times
		if other.data == nil && s.data == nil && other.delay.unit == s.delay.unit && other.at+s.at == "" && other.signed() >= s.signed() {
			s.before, s.delay.n = false, max(other.signed(), 0)+max(1, s.delay.n)
		}
		if other.data == nil && s.data == nil && other.delay.unit == s.delay.unit && other.at+s.at != "" {
			return // how those compare is not of interest
		}
	}
	s.before = s.before && s.delay.n > 0
	s.event, s.sql, s.job = r.chance(70), r.chance(40), !s.repeats() && r.chance(20)
	s.event = s.event || !s.sql && !s.job
	rule.steps = append(rule.steps, s)
	rule.made++
	rule.repeats[s.name], rule.tells[s.name] = s.repeats(), s.job
}

// since returns an instant from which the delays of a rule may count.
func (r *random) since(rule *theRule) *expression {
	for {
		if e := pick(r, sinces); rule.place == nil || !e.local() {
			return e
		}
	}
}

// done returns a list of done of a rule.
func (r *random) done(rule *theRule) []*expression {
	for {
		if list := pick(r, dones); rule.place == nil || !slices.ContainsFunc(list, (*expression).local) {
			return list
		}
	}
}

// holds lets the data hold how a step repeats.
func (r *random) holds(s *step) {
	if r.chance(40) {
		s.every, s.pace = nil, pick(r, paces)
	}
	if r.chance(40) {
		s.times, s.count = 0, pick(r, counts)
	}
}

// edit changes a rule. Its steps keep what they do.
func (r *random) edit(rule *theRule, calendars []*calendar) {
	closes := slices.ContainsFunc(rule.steps, func(s *step) bool { return s.closes })
	looks := rule.lookupSince()
	switch r.IntN(10) {
	case 0:
		rule.since[0] = r.since(rule)
	case 1:
		if done := r.done(rule); !closes && !slices.Equal(done, rule.done) {
			rule.done, rule.joinDone = done, false
			rule.atOnce = rule.atOnce && !slices.ContainsFunc(rule.done, func(e *expression) bool { return e.lookup })
		}
	case 2:
		rule.where = pick(r, wheres)
	case 3:
		switch local := slices.ContainsFunc(slices.Concat(rule.since, rule.done), (*expression).local); {
		case rule.place != nil && r.chance(50):
			rule.place = nil
		case !local && r.chance(50):
			rule.place = pick(r, places)
		default:
			rule.zone = zone(pick(r, zones))
		}
	case 4:
		if r.chance(50) {
			rule.met = !rule.met && !rule.atOnce
		} else {
			rule.recovered = !rule.recovered && (!looks || rule.look == 5*time.Minute)
		}
	case 5:
		rule.addStep(r, calendars)
	case 6:
		if i := r.IntN(len(rule.steps)); len(rule.steps) > 1 && !rule.steps[i].closes {
			rule.steps = slices.Delete(rule.steps, i, i+1)
		}
	case 7:
		if rule.overdue, rule.slots = pick(r, []string{"fire", "last", "skip", "spread"}), 0; rule.overdue == "spread" {
			rule.slots = 2 + r.IntN(6)
		}
	default:
		r.editStep(rule)
	}
}

// timed is the text of what says whether and when rows wait.
func (rule *theRule) timed() string {
	r := *rule
	r.overdue, r.slots, r.atOnce, r.recovered, r.met = "", 0, false, false, false
	return file(nil, []*theRule{&r})
}

// editStep changes the delay of a step.
func (r *random) editStep(rule *theRule) {
	s := pick(r, rule.steps)
	was := *s
	switch {
	case s.repeats() && r.chance(50):
		if s.times, s.count = 0, nil; r.chance(60) {
			s.times = 1 + r.IntN(6)
		}
	case s.repeats() && s.calendar == nil && r.chance(50):
		if s.every, s.pace = nil, pick(r, paces); r.chance(60) {
			s.every, s.pace = &delay{n: 1 + r.IntN(4), unit: days}, nil
		}
	case s.data == nil:
		s.delay.n = r.amount(s.delay.unit)
	}
	s.before = s.before && s.delay.n > 0
	for i, a := range rule.steps { // as addStep does
		for _, b := range rule.steps[:i] {
			if a.data == nil && b.data == nil && a.delay.unit == b.delay.unit && (a.at+b.at != "" || b.signed() >= a.signed()) {
				*s = was
			}
		}
	}
}

// signed is the number of units from since.
func (s *step) signed() int {
	if s.before {
		return -s.delay.n
	}
	return s.delay.n
}

// amount returns a random number of units.
func (r *random) amount(u unit) int {
	switch u {
	case days, weeks:
		return 1 + r.IntN(3)
	case monthly:
		return pick(r, []int{1, 1, 1, 2, 3, 12})
	case businessDays:
		return 1 + r.IntN(5)
	case businessHours:
		return pick(r, []int{30, 60, 90, 240, 480, 1200})
	}
	return pick(r, []int{0, 10, 45, 60, 90, 8 * 60, 24 * 60, 36 * 60, 3 * 24 * 60, 7*24*60 + 1})
}

func list(all []*expression, join string, joined bool) string {
	var texts []string
	for _, e := range all {
		texts = append(texts, e.sql)
	}
	if joined {
		return fmt.Sprintf("%q", strings.Join(texts, join))
	}
	for i := range texts {
		texts[i] = fmt.Sprintf("%q", texts[i])
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// file returns the text of a file.
func file(calendars []*calendar, rules []*theRule) string {
	var b strings.Builder
	b.WriteString("calendars:\n")
	for _, c := range calendars {
		fmt.Fprintf(&b, "  %s: %s\n", c.name, c.text)
	}
	b.WriteString("rules:\n")
	for _, r := range rules {
		fmt.Fprintf(&b, "  - name: %s\n    table: shop.o\n    key: id\n    since: %s\n    done: %s\n", r.name,
			list(r.since, "", false), list(r.done, " or ", r.joinDone))
		if len(r.where) > 0 {
			fmt.Fprintf(&b, "    where: %s\n", list(r.where, " and ", r.joinAll))
		}
		if len(r.pause) > 0 {
			fmt.Fprintf(&b, "    pause: %s\n", list(r.pause, "", false))
		}
		if b.WriteString("    payload: [n]\n"); r.place != nil {
			fmt.Fprintf(&b, "    timezone: {name: %q}\n", r.place.sql)
		} else {
			fmt.Fprintf(&b, "    timezone: %s\n", r.zone)
		}
		if r.look > 5*time.Minute {
			fmt.Fprintf(&b, "    recheck: %s\n", r.look)
		}
		var also []string
		for _, table := range r.also() {
			also = append(also, fmt.Sprintf("{table: %s, key: o_id}", table))
		}
		if len(also) > 0 {
			fmt.Fprintf(&b, "    also: [%s]\n", strings.Join(also, ", "))
		}
		if r.atOnce {
			b.WriteString("    cancel: at-once\n")
		}
		if r.recovered {
			fmt.Fprintf(&b, "    recovered: {event: %s.recovered}\n", r.name)
		}
		if r.met {
			fmt.Fprintf(&b, "    met: {event: %s.met}\n", r.name)
		}
		fmt.Fprintf(&b, "    overdue: %s\n", strings.TrimSuffix(fmt.Sprintf("%s %d", r.overdue, r.slots), " 0"))
		b.WriteString("    steps:\n")
		for _, s := range r.steps {
			b.WriteString(s.text(r.name))
		}
	}
	return b.String()
}

// time returns an instant of the days of the test, or before them.
func (r *random) time() time.Time {
	at := r.start.Add(time.Duration(r.Int64N(int64(r.days)*int64(day)*5/4)) - time.Duration(r.days)*day/4)
	return at.Truncate(pick(r, []time.Duration{time.Microsecond, time.Second, time.Minute, time.Minute, 15 * time.Minute, time.Hour}))
}

// near returns an instant near another.
func (r *random) near(now time.Time) time.Time {
	at := now.Add(time.Duration(r.Int64N(int64(8*day))) - 5*day)
	return at.Truncate(pick(r, []time.Duration{time.Microsecond, time.Second, time.Minute, time.Hour}))
}

// value returns a random value of a column.
func (r *random) value(column string, at time.Time) any {
	if column != "n" && column != "status" && column != "tz" && column != "region" && !strings.HasPrefix(column, "acted") && r.chance(8) {
		return nil
	}
	switch column {
	case "created_at", "closed_at":
		if r.chance(4) {
			return pick(r, []time.Time{far, late, never})
		}
		return at
	case "local_at", "closed_local":
		return wall(shows(at, zone(pick(r, zones))))
	case "due", "closed_on":
		return date(midnight(at))
	case "ms":
		return int(at.Truncate(250 * time.Millisecond).UnixMilli())
	case "data":
		return document(at)
	case "held":
		return pick(r, []int{0, 30, 120, 1440, 4000})
	case "paid":
		return r.chance(30)
	case "status":
		return pick(r, []string{"open", "open", "open", "shut"})
	case "amount":
		return pick(r, []int{0, 5, 20, 20, 20})
	case "tag":
		return pick(r, []string{"test", "x", "x", "x", "y"})
	case "channel_id":
		return 1 + r.IntN(4)
	case "len":
		if r.chance(50) {
			return interval{months: r.IntN(2), days: r.IntN(3), ok: true}
		}
		return interval{time: time.Duration(1+r.IntN(72*60)) * time.Minute, ok: true}
	case "mins":
		return 30 + r.IntN(3000)
	case "pace":
		return pick(r, []interval{
			{days: 1, ok: true},
			{days: 3, ok: true},
			{months: 1, ok: true},
			{months: 1, days: -3, ok: true},
			{time: 36 * time.Hour, ok: true},
			{days: 1, time: 90 * time.Minute, ok: true},
			{time: 7 * time.Hour, ok: true},
			{ok: true},
			{days: -2, ok: true},
			{months: -1, days: 2, ok: true},
		})
	case "nags":
		return pick(r, []int{-1, 0, 1, 2, 3, 5, 2_000_000_000})
	case "tz":
		return pick(r, zones)
	case "region":
		return pick(r, []string{"office", "lunch", "night", "every"})
	case "n":
		return r.IntN(100)
	}
	return false // acted
}

var columns = []string{
	"created_at", "local_at", "due", "ms", "data", "held", "closed_at", "closed_local", "closed_on", "paid", "status", "amount",
	"tag", "channel_id", "len", "mins", "pace", "nags", "tz", "region", "n",
}

// fresh returns the values of a new row.
func (r *random) fresh(key string, at time.Time) row {
	values := row{"id": key}
	for _, c := range columns {
		values[c] = r.value(c, at.Add(time.Duration(r.Int64N(int64(10*time.Hour)))-5*time.Hour).Truncate(time.Second))
	}
	for _, c := range []string{"closed_at", "closed_local", "closed_on"} {
		if r.chance(70) {
			values[c] = nil
		}
	}
	if r.chance(70) {
		values["paid"] = false
	}
	return values
}
