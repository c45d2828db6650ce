package rule

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/prescient-go/prescient/jobs/event"
)

// Recovered is an event that tells that what let steps of a row fire is over: the row is done, or its clock has moved.
// It is published once for each start of the clock. The zero value publishes nothing.
type Recovered struct {
	// Event is the type of the event.
	Event string `json:"event,omitempty"`
}

// RecoveredStep stands for the event of Rule.Recovered where steps have names: in events, and where the database keeps
// what has fired. No step of such a rule has this name.
const RecoveredStep = "recovered"

// The values of When in the data of the event of Rule.Recovered.
const (
	whenDone  = "done"
	whenMoved = "since moved"
)

// start is a start of the clock of a row, for which steps may have fired.
type start struct {
	since time.Time
	// fired tells that a step has fired, and told that the event of Rule.Recovered was published.
	fired, told bool
}

// over returns the starts of the clock whose steps have fired and that are over, the earliest first, of those for which
// it was not told.
func over(starts []start, s seen) (list []time.Time) {
	for _, c := range starts {
		is := s.since.Equal(c.since) && s.counts
		if c.fired && !c.told && s.there && (s.done || s.about && !is) {
			list = append(list, c.since)
		}
	}
	slices.SortFunc(list, time.Time.Compare)
	return list
}

// begins notes that a step has fired after a start of the clock.
func (t *turn) begins(since time.Time, step string) {
	i := slices.IndexFunc(t.starts, func(c start) bool { return c.since.Equal(since) })
	if i < 0 {
		i, t.starts = len(t.starts), append(t.starts, start{since: since})
	}
	if step == RecoveredStep {
		t.starts[i].told = true
	} else {
		t.starts[i].fired = true
	}
}

// watched reports whether the row must be looked at until what let its steps fire is over, also those that fire now.
func (t *turn) watched() bool {
	i := slices.IndexFunc(t.starts, func(c start) bool { return c.since.Equal(t.seen.since) })
	return (i >= 0 || len(t.due) > 0) && (i < 0 || !t.starts[i].told)
}

// recovery returns the event which tells that it is over what let steps fire after a start of the clock.
func (p *page) recovery(i int, since time.Time) event.Event {
	row, seen := p.rows[i], p.turns[i].seen
	now := row.Slot.Add(row.Lateness)
	data := stepData{
		Rule: p.rule.Rule.Name, Step: RecoveredStep, Entity: row.EntityName, Key: row.EntityKey, Since: since,
		When: whenMoved, At: now, Payload: seen.payload,
	}
	switch {
	case seen.done:
		if data.When = whenDone; seen.doneAt.Valid && seen.doneAt.Time.Before(now) {
			data.At = seen.doneAt.Time.UTC()
		}
	case seen.counts && seen.since.Before(now):
		data.At = seen.since
	}
	text, _ := json.Marshal(data) // never fails
	return event.Event{
		ID:     EventID(p.rule.Rule.Name, row.EntityKey, since, RecoveredStep),
		Source: p.Source, Type: p.rule.Rule.Recovered.Event,
		Subject: Subject(row.EntityName, row.EntityKey),
		Time:    data.At, GeneratedAt: now, Data: text,
	}
}

// tellRecovered makes the events which tell that what let steps of a row fire is over.
func (p *page) tellRecovered(i int) error {
	t := &p.turns[i]
	for _, since := range t.over {
		if t.seen.large {
			return p.tooLarge(i)
		}
		e := p.recovery(i, since)
		if err := e.Validate(); err != nil {
			return fmt.Errorf("publish the event of recovered, whose subject is the entity and the key: %w. "+
				"Leave such rows out with where", err)
		}
		t.events = append(t.events, e)
	}
	return nil
}
