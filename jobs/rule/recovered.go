package rule

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/prescient-go/prescient/jobs/event"
)

// Recovered is an event, a message or both, which tell that what let steps of a row fire is over: the row is done, or
// its clock has moved. Each is published once for each start of the clock. The zero value publishes nothing.
type Recovered struct {
	// Event is the type of the event.
	Event string `json:"event,omitempty"`
	// Notify is a message to people.
	Notify
}

// RecoveredStep stands for the event of Rule.Recovered where steps have names: in events, and where the database keeps
// what has fired. No step of such a rule has this name.
const RecoveredStep = "recovered"

// The values of When in the data of the event of Rule.Recovered.
const (
	whenDone  = "done"
	whenMoved = "since moved"
)

// Start is a start of the clock of a row, for which steps may have fired.
type Start struct {
	Since time.Time
	// Fired tells that a step has fired, and Told that the event of Rule.Recovered was published.
	Fired, Told bool
}

// over returns the starts of the clock whose steps have fired and that are over, the earliest first, of those for which
// it was not told.
func over(starts []Start, row Row) (list []time.Time) {
	for _, c := range starts {
		is := row.Since.Equal(c.Since) && row.Counts
		if c.Fired && !c.Told && row.There && (row.Done || row.About && !is) {
			list = append(list, c.Since)
		}
	}
	slices.SortFunc(list, time.Time.Compare)
	return list
}

// begins notes that a step has fired after a start of the clock.
func (m *Memory) begins(since time.Time, step string) {
	i := slices.IndexFunc(m.Starts, func(c Start) bool { return c.Since.Equal(since) })
	if i < 0 {
		i, m.Starts = len(m.Starts), append(m.Starts, Start{Since: since})
	}
	if step == RecoveredStep {
		m.Starts[i].Told = true
	} else {
		m.Starts[i].Fired = true
	}
}

// watched reports whether a row must be looked at until what let its steps fire is over. fires tells that steps fire
// now.
func watched(starts []Start, since time.Time, fires bool) bool {
	i := slices.IndexFunc(starts, func(c Start) bool { return c.Since.Equal(since) })
	return (i >= 0 || fires) && (i < 0 || !starts[i].Told)
}

// recovery returns the events which tell that it is over what let steps fire after a start of the clock.
func (p *page) recovery(i int, since time.Time) (list []event.Event) {
	row, seen := p.rows[i], p.turns[i].seen
	now := row.Slot.Add(row.Lateness)
	data := stepData{
		Rule: p.rule.Rule.Name, Step: RecoveredStep, Entity: row.EntityName, Key: row.EntityKey, Since: since,
		When: whenMoved, At: now, Payload: seen.payload,
	}
	switch {
	case seen.Done:
		if data.When = whenDone; !seen.DoneAt.IsZero() && seen.DoneAt.Before(now) {
			data.At = seen.DoneAt.UTC()
		}
	case seen.Counts && seen.Since.Before(now):
		data.At = seen.Since
	}
	if typ := p.rule.Rule.Recovered.Event; typ != "" {
		text, _ := json.Marshal(data) // never fails
		list = append(list, event.Event{
			ID:     EventID(p.rule.Rule.Name, row.EntityKey, since, RecoveredStep),
			Source: p.Source, Type: typ, Subject: Subject(row.EntityName, row.EntityKey),
			Time: data.At, PublishedAt: now, Data: text,
		})
	}
	if told := p.notify(i, p.rule.recovered, data, true); told != nil {
		list = append(list, *told)
	}
	return list
}

// tellRecovered makes the events which tell that what let steps of a row fire is over.
func (p *page) tellRecovered(i int) error {
	t := &p.turns[i]
	for _, since := range t.is.Over {
		if t.seen.large {
			return p.tooLarge(i)
		}
		for _, e := range p.recovery(i, since) {
			if err := e.ValidateNew(); err != nil {
				return fmt.Errorf("publish the event of recovered, whose subject is the entity and the key: %w. "+
					"Leave such rows out with where", err)
			}
			t.events = append(t.events, e)
		}
	}
	return nil
}
