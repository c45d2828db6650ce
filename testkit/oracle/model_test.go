package oracle_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// theRule is a rule of a file.
type theRule struct {
	name              string
	since             []*expression
	done, where       []*expression
	pause             []*expression
	joinDone, joinAll bool // written as one condition
	zone              *time.Location
	place             *expression // the data name the zone
	look              time.Duration
	steps             []*step
	overdue           string
	slots             int // of overdue: spread
	atOnce            bool
	recovered, met    bool
	wantsAlso         bool            // also names the tables that since and done look up
	made              int             // steps that there have been
	repeats           map[string]bool // those of them that repeat
	tells             map[string]bool // those of them with a job
}

// clocks returns the zone whose clocks count for a row.
func (r *theRule) clocks(t *tables, values row) *time.Location {
	if r.place == nil {
		return r.zone
	}
	return zone(r.place.name(t, values))
}

// varies reports whether the data move a step.
func (r *theRule) varies(s *step) bool { return s.data != nil || s.region != nil || r.place != nil }

// lookupSince reports whether another table moves the clock.
func (r *theRule) lookupSince() bool { return slices.Contains(r.since, beat) || r.changes() }

// changes reports whether the clock starts when the status of a row changes.
func (r *theRule) changes() bool { return slices.Contains(r.since, changed) }

// also returns the tables of also, and those that no trigger tells of are looked at every now and then.
func (r *theRule) also() (tables []string) {
	lookups := slices.Concat(r.since, r.done)
	uses := func(of ...*expression) bool {
		return slices.ContainsFunc(of, func(e *expression) bool { return slices.Contains(lookups, e) })
	}
	if r.wantsAlso && uses(payment, paidAt) {
		tables = append(tables, "shop.payment")
	}
	if r.wantsAlso && uses(beat) {
		tables = append(tables, "shop.beat")
	}
	return tables
}

// looksUp reports whether since or done look up another table.
func (r *theRule) looksUp(table string) bool {
	return slices.ContainsFunc(slices.Concat(r.since, r.done), func(e *expression) bool { return strings.Contains(e.sql, table) })
}

// rechecks reports whether checks look every now and then what another table says.
func (r *theRule) rechecks() bool { return len(r.also()) == 0 && !r.changes() }

// early reports whether a check may come before a step, so that what it finds depends on its slot.
func (r *theRule) early() bool {
	early := r.lookupSince() || len(r.pause) > 0
	for _, e := range slices.Concat(r.done, r.where) {
		early = early || e.lookup
	}
	for _, s := range r.steps {
		early = early || s.delay.unit != plain || s.at != "" || s.data != nil || s.repeats() && (s.every == nil || s.every.unit != plain) || s.count != nil
	}
	return early
}

// sinceOf returns the start of the clock of a row. With own, it is that of the row's own columns.
func (r *theRule) sinceOf(t *tables, values row, own bool) (last time.Time, ok bool) {
	for _, e := range r.since {
		if own && e.lookup {
			continue
		}
		if at, known := e.instant(t, values, r.zone); known && (!ok || at.After(last)) {
			last, ok = at, true
		}
	}
	return last, ok && last.Year() >= 1 && last.Year() < 2200
}

// local reports whether the clock of a row starts at a value without a time zone.
func (r *theRule) local(t *tables, values row) bool {
	return slices.ContainsFunc(r.since, func(e *expression) bool {
		here, known := e.instant(t, values, time.UTC)
		there, _ := e.instant(t, values, zone("Pacific/Apia"))
		return known && !here.Equal(there)
	})
}

// counts reports whether a rule is about a row that is not done.
func (r *theRule) counts(t *tables, values row, now time.Time, own bool) bool {
	for _, e := range r.where {
		if value, known := e.holds2(t, values, own); !value && known || !known && (!own || !e.lookup) {
			return false
		}
	}
	return !r.isDone(t, values, now, own)
}

// about reports whether the row alone says that a rule is about it.
func (r *theRule) about(t *tables, values row) bool {
	for _, e := range r.where {
		if value, known := e.holds2(t, values, true); (!value || !known) && !e.lookup {
			return false
		}
	}
	return true
}

func (r *theRule) isDone(t *tables, values row, now time.Time, own bool) bool {
	for _, e := range r.done {
		if own && e.lookup {
			continue
		}
		if e.instant != nil {
			if at, known := e.instant(t, values, r.zone); known && !at.After(now) {
				return true
			}
		} else if value, known := e.holds(t, values); value && known {
			return true
		}
	}
	return false
}

// holds2 is holds; a lookup is not known to a trigger.
func (e *expression) holds2(t *tables, values row, own bool) (value, known bool) {
	if own && e.lookup {
		return false, false
	}
	return e.holds(t, values)
}

// waiting is what is kept of a row and a rule.
type waiting struct {
	slot    time.Time // of the next check. Zero: the row does not wait
	began   time.Time // the first slot for which the row has waited
	unsure  bool      // what fires depends on when its check is
	horizon time.Time // steps whose slots are not later do not fire
	came    time.Time // when the row came to the rule; overdue decides about steps that had passed then
	// maybe tells that the rule was applied while the row waited. Then a check may judge another start of the clock
	// than known by when the row came before, or by when the rule was applied.
	maybe   bool
	known   time.Time
	left    map[string]time.Time   // slots until which a check has left out a step, by step and start of the clock
	kept    map[string]bool        // those of them that stay so when the row comes again: another step fired then
	fired   map[string]int         // the last number, by step and start of the clock; "met" is one, too
	last    map[string]time.Time   // when that was due
	skipped map[string]time.Time   // the last instant that an apply has left out, because a later one had fired
	starts  map[int64]*start       // of the clock, for which steps have fired since the rule has recovered
	times   map[string][]time.Time // of steps, as far as they were computed
	zone    string                 // of the rule when a step fired last
}

// forgive forgets the starts of the clock for which steps have fired.
func (m *model) forgive(r *theRule) {
	for _, w := range m.state[r.name] {
		clear(w.starts)
	}
}

// start is a start of the clock for which a step has fired.
type start struct {
	since time.Time
	told  bool // that it is over
}

// model computes what fires for the rows of a file. It writes down each firing.
type model struct {
	*tables
	rules []*theRule
	width time.Duration
	// eager looks at each row that waits in each slot. Otherwise only when something is due.
	eager bool
	// last lets spread rows wait for the last of the slots, not the next.
	last  bool
	ran   time.Time                      // the last run
	state map[string]map[string]*waiting // by rule and key
	fired map[string]map[string][]string // by rule and key
}

func newModel(t *tables, rules []*theRule, width time.Duration, eager, last bool) *model {
	m := &model{tables: t, rules: rules, width: width, eager: eager, last: last}
	m.forget()
	return m
}

// forget forgets what waits and what has fired.
func (m *model) forget() {
	m.state, m.fired = map[string]map[string]*waiting{}, map[string]map[string][]string{}
	for _, r := range m.rules {
		m.state[r.name], m.fired[r.name] = map[string]*waiting{}, map[string][]string{}
	}
}

func (m *model) ceil(at time.Time) time.Time {
	floor := at.Truncate(m.width)
	if floor.Equal(at) {
		return at
	}
	return floor.Add(m.width)
}

func (m *model) next(now time.Time) time.Time { return now.Truncate(m.width).Add(m.width) }

func (m *model) of(r *theRule, key string) *waiting {
	w := m.state[r.name][key]
	if w == nil {
		w = &waiting{fired: map[string]int{}, last: map[string]time.Time{}, skipped: map[string]time.Time{}, left: map[string]time.Time{}, kept: map[string]bool{}, starts: map[int64]*start{}, times: map[string][]time.Time{}}
		m.state[r.name][key] = w
	}
	return w
}

// at returns the nth instant of a step. If the delays have changed since the step fired last, it counts from then.
func (m *model) at(r *theRule, w *waiting, s *step, values row, since time.Time, n int) (time.Time, bool) {
	var l length
	if s.data != nil {
		if l = s.data.length(m.tables, values); !l.ok {
			return time.Time{}, false
		}
	}
	own, zone := s.of(m.tables, values), r.clocks(m.tables, values)
	every, most := s.paceOf(m.tables, values), s.most(m.tables, values)
	if most >= 0 && n > most || every == nil && n > 1 {
		return time.Time{}, false
	}
	pauses, _ := values[r.held()].([]span)
	var stands time.Time // since when the clock does
	if last := len(pauses) - 1; last >= 0 && pauses[last].to.IsZero() {
		pauses, stands = pauses[:last], pauses[last].from
	}
	key := fmt.Sprint(s.name, since.UnixMicro(), l, pauses, zone)
	if own.calendar != nil {
		key += own.calendar.name
	}
	if every != nil {
		key += fmt.Sprint(every.n, every.unit, every.of)
	}
	nth := func(n int) time.Time {
		for len(w.times[key]) < n {
			w.times[key] = append(w.times[key], own.nth(since, l, every, len(w.times[key])+1, zone, pauses))
		}
		return w.times[key][n-1]
	}
	at := nth(n)
	if from := w.goesOn(s, since); every != nil && from > 0 && n >= from {
		if last := w.last[name(s, since)]; !nth(from).Equal(last) {
			if at = last; n > from {
				at = own.goOn(since, last, *every, n-from, zone, pauses)
			}
		}
	}
	// A pause counts from since on. So a time before it does not move, but a time of day is outside of a pause.
	return at, stands.IsZero() || at.Before(stands) || at.Before(since) && s.at == ""
}

// goesOn returns the number from which the times of a step count that has fired. 0: from the first one.
func (w *waiting) goesOn(s *step, since time.Time) int {
	if !s.repeats() {
		return 0
	}
	return w.fired[name(s, since)]
}

// held names the column of a row, which no table has, with the pauses of a rule.
func (r *theRule) held() string { return "pauses of " + r.name }

// paused reports whether the clock of a row stands still.
func (r *theRule) paused(t *tables, values row) bool {
	return values != nil && slices.ContainsFunc(r.pause, func(e *expression) bool {
		value, known := e.holds(t, values)
		return value && known
	})
}

// holds notes which clocks of a row stand still from now on, or go on.
func (m *model) holds(old, values row, now time.Time) {
	for _, r := range m.rules {
		pauses, _ := old[r.held()].([]span)
		pauses = slices.Clone(pauses)
		switch was, is := r.paused(m.tables, old), r.paused(m.tables, values); {
		case !was && is:
			pauses = append(pauses, span{from: now})
		case was && !is:
			pauses[len(pauses)-1].to = now
		}
		values[r.held()] = slices.DeleteFunc(pauses, func(p span) bool { return p.from.Equal(p.to) })
	}
}

// due returns the number of a step that fires at a check, and its instant.
func (m *model) due(r *theRule, w *waiting, s *step, values row, since, now time.Time) (n int, at time.Time, found bool) {
	for i := max(w.goesOn(s, since), 1); ; i++ {
		next, ok := m.at(r, w, s, values, since, i)
		if !ok || m.ceil(next).After(now) {
			break
		}
		n, at = i, next
	}
	found = n > 0 && m.mayFire(w, name(s, since), n, at)
	if found && !m.ceil(at).After(w.came) {
		switch r.overdue {
		case "skip":
			found = false
		case "last":
			found = m.latest(r, w, values, since) == s
		}
	}
	return n, at, found
}

// comes forgets what was left out before a row comes again, unless another step fired then.
func (w *waiting) comes() {
	maps.DeleteFunc(w.left, func(name string, _ time.Time) bool { return !w.kept[name] })
}

// mayFire reports whether a number of a step has not fired, and its instant was not left out.
func (m *model) mayFire(w *waiting, name string, n int, at time.Time) bool {
	slot := m.ceil(at)
	return n > w.fired[name] && at.After(w.skipped[name]) && slot.After(w.horizon) && slot.After(w.left[name])
}

// latest returns the step whose time was the latest of those that had passed when the row came.
func (m *model) latest(r *theRule, w *waiting, values row, since time.Time) (latest *step) {
	var last time.Time
	for _, s := range r.steps {
		first := max(w.goesOn(s, since), 1)
		if m.ceil(w.last[name(s, since)]).After(w.came) { // it has fired after the row came
			first = 1
		}
		for n := first; ; n++ {
			at, ok := m.at(r, w, s, values, since, n)
			if !ok || m.ceil(at).After(w.came) {
				break
			}
			if latest == nil || !at.Before(last) {
				latest, last = s, at
			}
		}
	}
	return latest
}

// come tells that a row comes to a rule.
func (m *model) come(r *theRule, key string, now time.Time) {
	w := m.of(r, key)
	w.horizon, w.came = time.Time{}, now
	m.begin(r, key, now)
}

// begin lets a row wait that has come to a rule.
func (m *model) begin(r *theRule, key string, now time.Time) {
	w := m.of(r, key)
	if !w.slot.IsZero() && !w.slot.After(now) {
		return
	}
	m.look(r, key, now)
	if !w.slot.Equal(m.next(now)) || r.paused(m.tables, m.rows[key]) {
		return
	}
	// Between the first and the last of its slots, another table may say something else than in both.
	w.unsure = w.unsure || r.slots > 2 && slices.ContainsFunc(slices.Concat(r.since, r.done, r.where), func(e *expression) bool { return e.lookup })
	if m.last && r.slots > 1 {
		w.slot = w.slot.Add(time.Duration(r.slots-1) * m.width)
	}
}

// look lets a row wait as wait does. One that is paused is looked at in the next slot, and then once a day.
func (m *model) look(r *theRule, key string, now time.Time) {
	m.wait(r, key, now)
	if w, values := m.of(r, key), m.rows[key]; !w.slot.IsZero() && r.paused(m.tables, values) {
		w.slot = m.next(now)
	}
}

func name(s *step, since time.Time) string { return fmt.Sprint(s.name, " ", since.UnixMicro()) }

// wait lets a row wait for its next step, or for another table.
func (m *model) wait(r *theRule, key string, now time.Time) {
	w, values := m.of(r, key), m.rows[key]
	w.slot = time.Time{}
	since, ok := m.since(r, values)
	paused := r.paused(m.tables, values)
	if ok && paused {
		w.slot = m.ceil(now.Add(day))
	}
	if ok && !paused {
		for _, s := range r.steps {
			slot := time.Time{}
			if _, _, found := m.due(r, w, s, values, since, now); found {
				slot = m.next(now)
			} else {
				for n := 1; ; n++ {
					at, ok := m.at(r, w, s, values, since, n)
					if !ok {
						break
					}
					if m.ceil(at).After(now) && m.mayFire(w, name(s, since), n, at) {
						slot = m.ceil(at)
						break
					}
				}
			}
			if !slot.IsZero() && (w.slot.IsZero() || slot.Before(w.slot)) {
				w.slot = slot
			}
		}
	}
	if w.slot.IsZero() && r.lookupSince() && r.rechecks() {
		w.slot = m.ceil(now.Add(r.look))
	}
	if s := w.starts[since.UnixMicro()]; ok && s != nil && !s.told && r.recovered {
		for _, at := range r.ends(m.tables, values, now) {
			if slot := m.ceil(at); w.slot.IsZero() || slot.Before(w.slot) {
				w.slot = slot
			}
		}
	}
	if ok && r.met {
		for _, e := range r.done {
			if e.instant == nil || e.lookup {
				continue
			}
			if at, known := e.instant(m.tables, values, r.zone); known && at.After(now) && !infinite(at) && m.inTime(r, w, values, since, at) {
				if slot := m.ceil(at); w.slot.IsZero() || slot.Before(w.slot) {
					w.slot = slot
				}
			}
		}
	}
	m.watch(r, key, now)
}

// inTime reports whether a row that is done at an instant is so in time: no step has fired or passed.
func (m *model) inTime(r *theRule, w *waiting, values row, since, doneAt time.Time) bool {
	for fired := range w.fired {
		if strings.HasSuffix(fired, fmt.Sprint(" ", since.UnixMicro())) {
			return false
		}
	}
	for _, s := range r.steps {
		at, ok := m.at(r, w, s, values, since, 1)
		slot := m.ceil(at)
		if ok && (!slot.After(w.horizon) || !slot.After(w.came) || slot.Before(w.began) || slot.Before(doneAt) || !slot.After(w.left[name(s, since)])) {
			return false
		}
	}
	return slices.ContainsFunc(r.steps, func(s *step) bool {
		return (s.data == nil || s.data.length(m.tables, values).ok) && s.most(m.tables, values) != 0
	})
}

// getsMet tells that a rule has met from now on. A row that is done already has it if a check is still to come.
func (m *model) getsMet(r *theRule, now time.Time) {
	for key, values := range m.rows {
		w := m.of(r, key)
		w.unsure = w.unsure || r.isDone(m.tables, values, now, false)
	}
}

// meets tells that a row is done in time.
func (m *model) meets(r *theRule, key string, w *waiting, now time.Time) {
	values, found := m.rows[key]
	if !r.met || !found || !r.isAbout(m.tables, values) || !r.isDone(m.tables, values, now, false) {
		return
	}
	doneAt, known, _ := m.done(r, values, now)
	since, ok := m.since(r, values)
	w.unsure = w.unsure || ok && w.maybe && !since.Equal(w.known)
	if !ok || !m.inTime(r, w, values, since, doneAt) {
		return
	}
	w.fired[fmt.Sprint("met ", since.UnixMicro())] = 1
	done := " done"
	if known && !infinite(doneAt) && doneAt.Before(now) {
		done += " " + stamp(doneAt)
	}
	m.fired[r.name][key] = append(m.fired[r.name][key], fmt.Sprintf("met since %s n %v:%s", stamp(since), values["n"], done))
}

// waits notes the first slot for which a row waits that did not wait before.
func (w *waiting) waits(before time.Time) {
	if before.IsZero() {
		w.began = w.slot
	}
}

// ends returns when to look whether it is over what let steps of a row fire.
func (r *theRule) ends(t *tables, values row, now time.Time) (list []time.Time) {
	for _, e := range slices.Concat(r.since, r.done) {
		if e.lookup && r.rechecks() {
			list = append(list, now.Add(r.look))
		}
	}
	for _, e := range r.done {
		if e.instant == nil {
			continue
		}
		if at, known := e.instant(t, values, r.zone); known && at.After(now) && !infinite(at) {
			list = append(list, at)
		}
	}
	return list
}

// watch lets a row wait for the slot in which it is told that it is over what let its steps fire, as far as the row
// knows the instant.
func (m *model) watch(r *theRule, key string, now time.Time) {
	w, values := m.of(r, key), m.rows[key]
	if _, over := m.over(r, values, w, now); len(over) > 0 {
		if next := m.next(now); w.slot.IsZero() || next.Before(w.slot) {
			w.slot = next
		}
	}
}

// over returns the starts of the clock that are over, of those for which it was not told, and since when a row is done.
func (m *model) over(r *theRule, values row, w *waiting, now time.Time) (doneAt string, over []*start) {
	if values == nil || !r.recovered {
		return "", nil
	}
	doneAt = " moved"
	since, ok := m.since(r, values)
	done := r.isDone(m.tables, values, now, false)
	if done {
		doneAt = " done"
		if at, known, _ := m.done(r, values, now); known && !infinite(at) && at.Before(now) {
			doneAt += " " + stamp(at)
		}
	}
	for _, s := range w.starts {
		if !s.told && (done || r.isAbout(m.tables, values) && (!ok || !since.Equal(s.since))) {
			over = append(over, s)
		}
	}
	return doneAt, over
}

// isAbout reports whether a rule is about a row.
func (r *theRule) isAbout(t *tables, values row) bool {
	return !slices.ContainsFunc(r.where, func(e *expression) bool {
		value, known := e.holds(t, values)
		return !value || !known
	})
}

func (m *model) since(r *theRule, values row) (time.Time, bool) {
	return r.sinceOf(m.tables, values, false)
}

// inserted tells of a row that was inserted.
func (m *model) inserted(values row, now time.Time) {
	key := values["id"].(string)
	m.rows[key] = values.with(row{changedAt: now})
	m.holds(nil, m.rows[key], now)
	for _, r := range m.rules {
		w := m.of(r, key)
		w.unsure = w.unsure || r.recovered && w.tells(time.Time{}, false) // of a row that was deleted
		w.comes()
		before := w.slot
		if r.counts(m.tables, m.rows[key], now, true) {
			m.come(r, key, now)
		}
		w.waits(before)
	}
}

// updated tells of a row that was updated.
func (m *model) updated(key string, changes row, now time.Time) {
	old := m.rows[key]
	m.rows[key] = old.with(changes)
	if literal(m.rows[key]["status"]) != literal(old["status"]) {
		m.rows[key][changedAt] = now
	}
	m.holds(old, m.rows[key], now)
	for _, r := range m.rules {
		before := m.of(r, key).slot
		m.updatedOf(r, key, old, now)
		m.of(r, key).waits(before)
	}
}

func (m *model) updatedOf(r *theRule, key string, old row, now time.Time) {
	w, values := m.of(r, key), m.rows[key]
	isDue := !w.slot.IsZero() && !w.slot.After(now)
	before, had := r.sinceOf(m.tables, old, true)
	since, has := r.sinceOf(m.tables, values, true)
	counted, counts := r.counts(m.tables, old, now, true), r.counts(m.tables, values, now, true)
	moved := had != has || has && !before.Equal(since)
	moved = moved || r.changes() && changed.changes(old, values)
	for _, s := range r.steps {
		for _, e := range []*expression{s.data, s.pace, s.count, s.region, r.place} {
			moved = moved || e != nil && e.changes(old, values)
		}
	}
	finds := func(list []*expression) bool { // whether a lookup may find something else
		return slices.ContainsFunc(list, func(e *expression) bool { return e.lookup && e.changes(old, values) })
	}
	held := r.paused(m.tables, old) != r.paused(m.tables, values)
	looked, entered := finds(slices.Concat(r.since, r.done)), finds(r.where)
	switch {
	case !counts:
		if r.atOnce && !isDue {
			w.slot = time.Time{}
		}
		if done := r.isDone(m.tables, values, now, true) && !r.isDone(m.tables, old, now, true); r.met && done && !isDue && r.about(m.tables, values) {
			if w.slot = m.next(now); !counted || had != has || has && !before.Equal(since) || r.changes() && changed.changes(old, values) {
				w.horizon, w.came = time.Time{}, now
			}
		}
		if !isDue {
			m.watch(r, key, now)
		}
	case !has && !r.lookupSince():
		if !isDue {
			w.slot = time.Time{}
			m.watch(r, key, now)
		}
	case isDue:
		if moved || entered {
			w.unsure = w.unsure || !w.horizon.IsZero() || r.overdue != "fire"
			w.horizon = time.Time{}
		}
	case r.early() && (!counted || (moved || entered) && r.overdue != "fire") && !w.slot.IsZero() && m.ran.Before(now.Truncate(m.width)): // a check may be due
		w.unsure = true
		m.come(r, key, now)
	case moved: // also if the row counts again
		horizon, waits := w.horizon, !w.slot.IsZero()
		m.come(r, key, now)
		if waits && had && before.Equal(since) { // another delay: what was left out stays so
			w.horizon = horizon
			m.begin(r, key, now)
		}
	case entered, !counted && !r.about(m.tables, old) && !r.isDone(m.tables, old, now, true):
		w.comes()
		w.unsure = w.unsure || r.recovered && w.tells(since, has) // by the next check
		m.come(r, key, now)
	case !counted:
		w.horizon = now
		m.look(r, key, now)
	case looked, held:
		if w.slot.IsZero() {
			w.horizon = now
		}
		m.look(r, key, now)
	case r.met && !isDue && has && w.starts[since.UnixMicro()] == nil:
		slot := w.slot
		if m.wait(r, key, now); !slot.IsZero() && (w.slot.IsZero() || slot.Before(w.slot)) {
			w.slot = slot
		}
	case r.recovered && !isDue && w.starts[since.UnixMicro()] != nil && !w.starts[since.UnixMicro()].told:
		for _, at := range r.ends(m.tables, values, now) {
			if slot := m.ceil(at); w.slot.IsZero() || slot.Before(w.slot) {
				w.slot = slot
			}
		}
	}
}

// wrote tells of a write to another table about a row.
func (m *model) wrote(table, key string, now time.Time) {
	for _, r := range m.rules {
		w := m.of(r, key)
		before := w.slot
		switch {
		case !slices.Contains(r.also(), table):
			// The check of the next step finds it. A row that is paused is looked at once a day, but at what time of the day
			// depends on when it was looked at before.
			w.unsure = w.unsure || r.looksUp(table) && r.paused(m.tables, m.rows[key])
		case w.slot.IsZero():
			w.horizon, w.came, w.slot = time.Time{}, now, m.next(now)
			w.comes()
		case w.slot.After(now):
			if r.lookupSince() {
				w.came = now
			}
			if next := m.next(now); next.Before(w.slot) {
				w.slot = next
			}
		}
		w.waits(before)
	}
}

// tells reports whether another start of the clock may be over, which was not told.
func (w *waiting) tells(since time.Time, ok bool) bool {
	for _, s := range w.starts {
		if !s.told && (!ok || !s.since.Equal(since)) {
			return true
		}
	}
	return false
}

// changes reports whether columns of an expression have changed.
func (e *expression) changes(old, values row) bool {
	return slices.ContainsFunc(e.cols, func(c string) bool { return literal(old[c]) != literal(values[c]) })
}

// deleted tells of a row that was deleted.
func (m *model) deleted(key string, now time.Time) {
	delete(m.rows, key)
	for _, r := range m.rules {
		if w := m.of(r, key); w.slot.After(now) {
			w.slot = time.Time{}
		}
	}
}

// renamed tells of a row whose key has changed.
func (m *model) renamed(key, to string, now time.Time) {
	m.rows[to] = m.rows[key].with(row{"id": to})
	delete(m.rows, key)
	for _, r := range m.rules {
		w := m.of(r, key)
		delete(m.state[r.name], key)
		m.state[r.name][to] = w
		if !w.slot.IsZero() && !w.slot.After(now) {
			w.slot = m.next(now)
		}
		w.began = w.slot
		for _, e := range slices.Concat(r.since, r.done) { // they find the rows of another key
			w.unsure = w.unsure || e.lookup && e != changed
		}
	}
}

// applied tells of a rule that is applied to the rows that are there.
func (m *model) applied(r *theRule, now time.Time) {
	for key, values := range m.rows {
		w := m.of(r, key)
		w.times = map[string][]time.Time{}
		// A change of the file is told by the next check, if there is one.
		w.unsure = w.unsure || r.recovered && w.tells(time.Time{}, false)
		// The same value is the same start of the clock, but here a start is an instant.
		w.unsure = w.unsure || w.zone != "" && w.zone != r.zone.String() && r.local(m.tables, values)
		since, ok := m.since(r, values)
		if doneAt, _, _ := m.done(r, values, now); ok && r.met && w.slot.IsZero() && r.isDone(m.tables, values, now, false) {
			// A check that has not looked at other tables yet may find it done now.
			w.unsure = w.unsure || m.inTime(r, w, values, since, doneAt)
		}
		if !w.slot.IsZero() && !w.maybe {
			w.maybe, w.known = true, since
		}
		if !w.slot.IsZero() && !w.slot.After(now) {
			// A check that is due fires what the new file says, as after an outage.
			w.unsure = w.unsure || r.overdue != "fire"
			m.skipBefore(r, w, values, now)
			continue
		}
		if !r.counts(m.tables, values, now, false) {
			continue
		}
		// The next check may be the first that finds what another table says, or one that was late.
		w.unsure = w.unsure || r.lookupSince() && r.overdue != "fire" && w.slot.Equal(m.next(now))
		// A row that was done and has no step to come may wait for a last check, or not.
		w.unsure = w.unsure || w.slot.IsZero() && !w.horizon.IsZero()
		if !w.slot.IsZero() && r.paused(m.tables, values) {
			continue
		}
		before := w.slot
		if w.came = now; w.slot.IsZero() {
			w.horizon = time.Time{}
			w.comes()
		}
		m.skipBefore(r, w, values, now)
		m.begin(r, key, now)
		w.waits(before)
	}
}

// skipBefore leaves out the steps that have passed before one that has fired.
func (m *model) skipBefore(r *theRule, w *waiting, values row, now time.Time) {
	since, ok := m.since(r, values)
	fired := time.Time{} // the latest of those that have fired, by delays that no data move
	for _, s := range r.steps {
		if n := w.fired[name(s, since)]; ok && n > 0 && !r.varies(s) {
			if at, found := m.at(r, w, s, values, since, n); found && at.After(fired) {
				fired = at
			}
		}
	}
	for _, s := range r.steps {
		if !ok || r.varies(s) || w.fired[name(s, since)] > 0 {
			continue
		}
		for n := 1; ; n++ {
			at, ok := m.at(r, w, s, values, since, n)
			if !ok || !at.Before(fired) || m.ceil(at).After(now) {
				break
			}
			w.skipped[name(s, since)] = at
		}
	}
}

// run checks the rows that are due.
func (m *model) run(now time.Time) {
	m.ran = now
	for _, r := range m.rules {
		for key, w := range m.state[r.name] {
			if !w.slot.IsZero() && (!w.slot.After(now) || m.eager && r.early()) {
				m.check(r, key, w, now)
			}
		}
	}
}

func (m *model) check(r *theRule, key string, w *waiting, now time.Time) {
	if w.slot.Before(w.began) { // its clock has moved back
		w.began = w.slot
	}
	m.tell(r, key, w, now)
	m.meets(r, key, w, now)
	values, found := m.rows[key]
	if !found || !r.counts(m.tables, values, now, false) {
		w.slot = time.Time{}
		return
	}
	since, ok := m.since(r, values)
	if r.paused(m.tables, values) {
		m.wait(r, key, now)
		return
	}
	if until := w.came.Truncate(m.width).Add(time.Duration(r.slots) * m.width); ok && m.last && now.Before(until) &&
		m.spreads(r, w, values, since, now) {
		w.slot = until
		return
	}
	if w.maybe && r.overdue != "fire" && (!since.Equal(w.known) || slices.ContainsFunc(r.steps, (*step).looks)) {
		w.unsure = true
	}
	closes, fires := false, false
	for _, s := range r.steps {
		if !ok {
			break
		}
		if n, at, found := m.due(r, w, s, values, since, now); found {
			w.fired[name(s, since)], w.last[name(s, since)], w.zone = n, at, r.zone.String()
			if r.recovered && w.starts[since.UnixMicro()] == nil {
				w.starts[since.UnixMicro()] = &start{since: since}
			}
			m.fired[r.name][key] = append(m.fired[r.name][key], firing(s, n, at, since, values["n"]))
			closes, fires = closes || s.closes, true
		}
	}
	if ok && (r.overdue == "last" || r.overdue == "skip") {
		m.leave(r, w, values, since, fires)
	}
	if closes {
		m.rows[key] = values.with(row{"acted_" + r.name: true})
	}
	m.wait(r, key, now)
}

// spreads reports whether a step is due that had passed when its row came.
func (m *model) spreads(r *theRule, w *waiting, values row, since, now time.Time) bool {
	return slices.ContainsFunc(r.steps, func(s *step) bool {
		_, at, found := m.due(r, w, s, values, since, now)
		return found && !m.ceil(at).After(w.came)
	})
}

// leave leaves out the steps that had passed when a row came, and did not fire.
func (m *model) leave(r *theRule, w *waiting, values row, since time.Time, fires bool) {
	for _, s := range r.steps {
		n := max(w.goesOn(s, since), 1) - 1
		for at, ok := m.at(r, w, s, values, since, n+1); ok && !m.ceil(at).After(w.came); at, ok = m.at(r, w, s, values, since, n+1) {
			n++
		}
		if n > w.fired[name(s, since)] {
			w.left[name(s, since)] = w.came
			w.kept[name(s, since)] = w.kept[name(s, since)] || fires
		}
	}
}

// tell tells that it is over what let steps of a row fire.
func (m *model) tell(r *theRule, key string, w *waiting, now time.Time) {
	values := m.rows[key]
	done, over := m.over(r, values, w, now)
	for _, s := range over {
		s.told = true
		m.fired[r.name][key] = append(m.fired[r.name][key], fmt.Sprintf("recovered since %s n %v:%s", stamp(s.since), values["n"], done))
	}
}

// firing describes that a step has fired.
func firing(s *step, n int, at, since time.Time, payload any) string {
	number := 0
	if s.repeats() {
		number = n
	}
	acts := ""
	if s.event {
		acts += " event " + stamp(at)
	}
	if s.sql {
		acts += " sql"
	}
	return fmt.Sprintf("%s #%d since %s n %v:%s", s.name, number, stamp(since), payload, acts)
}

func stamp(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05.999999") }

// acts returns what fired for a row, but for steps that do no more than enqueue a job.
func (m *model) acts(r *theRule, key string) (list []string) {
	for _, f := range m.all(r, key) {
		if !strings.HasSuffix(f, ":") {
			list = append(list, f)
		}
	}
	return list
}

// all returns what fired for a row.
func (m *model) all(r *theRule, key string) []string {
	list := slices.Clone(m.fired[r.name][key])
	slices.Sort(list)
	return list
}
