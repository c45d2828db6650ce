package oracle_test

import (
	"fmt"
	"time"

	"github.com/prescient-go/prescient/internal/backtest"
)

// past returns what a test on the past says about a rule: what fired for sure, and the counts of each step.
func (m *model) past(r *theRule, from, to, now time.Time) (fired []string, counts []backtest.Counts) {
	counts = make([]backtest.Counts, len(r.steps))
	var over, met backtest.Counts // of recovered and of met
	for key, values := range m.rows {
		since, ok := m.since(r, values)
		about := true
		for _, e := range r.where {
			holds, known := e.holds(m.tables, values)
			about = about && holds && known
		}
		if !ok || !about || since.Before(from) || !since.Before(to) {
			continue
		}
		w, times := &waiting{times: map[string][]time.Time{}}, len(fired)
		waits := false
		for i, s := range r.steps {
			_, ok := m.at(r, w, s, values, since, 1)
			waits = waits || ok
			m.pastOf(r, w, s, key, values, since, now, &fired, &counts[i])
		}
		doneAt, hasDone, doneNow := m.done(r, values, now)
		alarmed := len(fired) > times
		switch {
		case !waits || !r.met || alarmed || hasDone && infinite(doneAt):
		case hasDone:
			met.Fired++
			fired = append(fired, fmt.Sprintf("met %s #0 %s in %s", key, stamp(doneAt), stamp(m.ceil(doneAt))))
		case doneNow:
			met.DoneNow++
		default:
			met.Open++
		}
		switch {
		case !waits || !r.recovered:
		case hasDone && alarmed:
			over.Fired++
			fired = append(fired, fmt.Sprintf("recovered %s #0 %s in %s", key, stamp(doneAt), stamp(m.ceil(doneAt))))
		case hasDone:
			over.Met++
		case doneNow:
			over.DoneNow++
		default:
			over.Open++
		}
	}
	if r.recovered {
		counts = append(counts, over)
	}
	if r.met {
		counts = append(counts, met)
	}
	return fired, counts
}

// pastOf counts a row at a step. The waiting row has fired nothing: the test on the past does not know what the engine has.
func (m *model) pastOf(r *theRule, w *waiting, s *step, key string, values row, since, now time.Time, fired *[]string, c *backtest.Counts) {
	doneAt, hasDone, doneNow := m.done(r, values, now)
	if _, ok := m.at(r, w, s, values, since, 1); !ok {
		return // it never fires for the row
	}
	times := int64(0)
	end := func(met, open bool) {
		switch {
		case times > 0:
		case met:
			c.Met++
		case open:
			c.Open++
		default:
			c.DoneNow++
		}
	}
	for n := 1; ; n++ {
		at, ok := m.at(r, w, s, values, since, n)
		if !ok {
			break
		}
		slot := m.ceil(at)
		if next, more := m.at(r, w, s, values, since, n+1); more && !m.ceil(next).After(slot) {
			continue // the last one of a slot fires
		}
		future := slot.After(now)
		met := hasDone && !doneAt.After(slot) || doneNow && future
		if met || future || doneNow {
			end(met, future)
			break
		}
		number := 0
		if s.repeats() {
			number = n
		}
		*fired = append(*fired, fmt.Sprintf("%s %s #%d %s in %s", s.name, key, number, stamp(at), stamp(slot)))
		times++
	}
	if times > 0 {
		c.Fired++
		c.Again += times - 1
	}
}

// done returns since when a row is done, and whether a condition ends it now.
func (m *model) done(r *theRule, values row, now time.Time) (first time.Time, ok, doneNow bool) {
	for _, e := range r.done {
		if e.instant != nil {
			at, known := e.instant(m.tables, values, r.zone)
			if known && !at.After(now) && (!ok || at.Before(first)) {
				first, ok = at, true
			}
		} else if holds, known := e.holds(m.tables, values); holds && known {
			doneNow = true
		}
	}
	return first, ok, doneNow
}
