package rule

import (
	"fmt"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots/grid"
)

// Pause is a time during which the clock of a row stands still.
type Pause struct {
	From time.Time // UTC
	To   time.Time // UTC. Zero: it has not ended
}

// Pauses returns the pauses of a row, the earliest first. noted has the begin and the end of each as triggers have
// noted them, in turn, in microseconds since 1970. paused tells whether the row is paused now.
//
// A row that is paused without a begin was so when the rule was applied. A begin without an end, of a row that is not
// paused, is that of an earlier version of the rule, and ended with the apply. Otherwise triggers have missed the end:
// such a pause does not count.
func Pauses(f expr.Facts, noted []int64, paused bool) (list []Pause) {
	if len(f.Pause) == 0 {
		return nil
	}
	for pair := range slices.Chunk(noted, 2) {
		p := Pause{From: time.UnixMicro(pair[0]).UTC()}
		switch {
		case len(pair) == 2:
			p.To = time.UnixMicro(pair[1]).UTC()
		case paused:
		case p.From.Before(f.PausedFrom):
			p.To = f.PausedFrom
		default:
			continue
		}
		if p.To.IsZero() || p.To.After(p.From) {
			list = append(list, p)
		}
	}
	if n := len(noted); paused && n%2 == 0 {
		list = append(list, Pause{From: f.PausedFrom})
	}
	return list
}

// pausedSince returns when the pause began that has not ended. Zero: there is none.
func pausedSince(list []Pause) time.Time {
	if n := len(list); n > 0 && list[n-1].To.IsZero() {
		return list[n-1].From
	}
	return time.Time{}
}

// resumed returns an instant of a clock that began at another one, moved later by the pauses until then: by the time
// that passes, or by working time.
func (s *stepTiming) resumed(from, at time.Time, working bool) (time.Time, error) {
	for _, p := range s.pauses {
		begin := grid.Later(p.From, from)
		switch {
		case !p.To.IsZero() && !p.To.After(from):
			continue
		case at.Before(begin):
			return at, nil
		case p.To.IsZero():
			return at, errNever
		case !working:
			at = at.Add(p.To.Sub(begin))
			continue
		}
		// The end of a day and the beginning of the next are the same working time: the later one stays.
		until := p.To
		if left := s.calendar.passed(begin, at); left > 0 {
			var err error
			if until, err = s.calendar.addTime(p.To, left); err != nil {
				return at, err
			}
		}
		at = grid.Later(at, until)
	}
	return at, nil
}

// running returns the first instant at or after one of a step with a time of day, which clocks show outside of a pause.
func (s *stepTiming) running(at time.Time) (time.Time, error) {
	for _, p := range s.pauses {
		if at.Before(p.From) || !p.To.IsZero() && !at.Before(p.To) {
			continue
		}
		if p.To.IsZero() {
			return at, errNever
		}
		var err error
		if at, err = s.next(p.To); err != nil {
			return at, err
		}
	}
	return at, nil
}

// Used returns how much of the delay of a step has passed from since to an instant, without the pauses: "3h" or, in
// business time, "3h of working time".
func (t *Timing) Used(step int, since, at time.Time) string {
	s := t.steps[step]
	between, unit := func(from, to time.Time) time.Duration { return max(to.Sub(from), 0) }, ""
	if s.first.business() {
		between, unit = s.calendar.passed, " of working time"
	}
	used := between(since, at)
	for _, p := range s.pauses {
		end := at
		if !p.To.IsZero() {
			end = grid.Earlier(p.To, at)
		}
		used -= between(grid.Later(p.From, since), end)
	}
	return spoken.Exact(used.Round(time.Second)) + unit
}

// used says for each step that has not fired how much of its delay had passed when the row was paused.
func (r *compiled) used(row Row, fired map[string]Occurrence) (list []string) {
	timing := r.timing.For(row.Held, row.Pauses)
	for i, step := range r.Rule.Steps {
		if fired[step.Name].Number == 0 && step.Before == (Delay{}) && timing.steps[i].unknown == nil {
			list = append(list, fmt.Sprintf("%s %s", step.Name, timing.Used(i, row.Since, pausedSince(row.Pauses))))
		}
	}
	return list
}
