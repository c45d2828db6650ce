package rule

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/prescient-go/prescient/jobs/event"
)

// Act has the event, the job and the message that follow the end of a wait, once for each start of the clock. The zero
// value does nothing.
type Act struct {
	// Event is the type of an event to publish.
	Event string `json:"event,omitempty"`
	// Job is a job to enqueue for the same entity.
	Job string `json:"job,omitempty"`
	// Notify is a message to people.
	Notify
}

// RecoveredStep and MetStep stand for Rule.Recovered and Rule.Met where steps have names: in events, and where the
// database keeps what has fired. No step of such a rule has this name.
const (
	RecoveredStep = "recovered"
	MetStep       = "met"
)

// RecoveredWhen and MetWhen say in lists of steps when Rule.Recovered and Rule.Met follow. No Step.When is like them.
const (
	RecoveredWhen = "when it is over"
	MetWhen       = "when it is done in time"
)

// follows returns what follows the end of a wait, by its name in a file.
func (r Rule) follows() map[string]Act {
	return map[string]Act{RecoveredStep: r.Recovered, MetStep: r.Met}
}

// The values of When in the data of the events of an Act.
const (
	whenDone  = "done"
	whenMoved = "since moved"
)

// Start is a start of the clock of a row, for which steps may have fired.
type Start struct {
	Since time.Time
	// Fired tells that a step has fired, and Told that Rule.Recovered has followed.
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

// after makes what follows the end of a wait: of each start of the clock that is over, or of one that was met.
func (p *page) after(i int) error {
	t := &p.turns[i]
	for _, since := range t.is.Over {
		data := p.endData(i, since, RecoveredStep)
		if err := p.act(i, p.rule.Rule.Recovered, p.rule.recovered, data, true); err != nil {
			return err
		}
	}
	if t.is.Met {
		return p.act(i, p.rule.Rule.Met, p.rule.met, p.endData(i, t.seen.Since, MetStep), false)
	}
	return nil
}

// act makes the events and the job of an act, whose message is that of a notifier. over tells that a wait is over.
func (p *page) act(i int, act Act, n *notifier, data stepData, over bool) error {
	row, t := p.rows[i], &p.turns[i]
	if t.seen.large {
		return p.tooLarge(i)
	}
	text, _ := json.Marshal(data) // never fails
	var events []event.Event
	if act.Event != "" {
		events = append(events, event.Event{
			ID:     p.eventID(i, data.Since, data.repetition()),
			Source: p.Source, Type: act.Event, Subject: Subject(row.EntityName, row.EntityKey),
			Time: data.At, PublishedAt: row.Slot.Add(row.Lateness), Data: text,
		})
	}
	if told := p.notify(i, n, data, over); told != nil {
		events = append(events, *told)
	}
	for _, e := range events {
		if err := e.ValidateNew(); err != nil {
			return fmt.Errorf("publish %s of %s, whose subject is the entity and the key: %w. "+
				"Leave such rows out with where", e.Type, data.Step, err)
		}
	}
	t.events = append(t.events, events...)
	if act.Job == "" {
		return nil
	}
	return p.enqueue(i, data.Step, act.Job, text)
}

// endData is the data of what follows the end of a wait.
func (p *page) endData(i int, since time.Time, name string) stepData {
	row, seen := p.rows[i], p.turns[i].seen
	now := row.Slot.Add(row.Lateness)
	data := stepData{
		Rule: p.rule.Rule.Name, Step: name, Entity: row.EntityName, Key: row.EntityKey, Since: since,
		When: whenMoved, At: now, Payload: seen.payload,
	}
	switch {
	case seen.Done:
		if data.When = whenDone; seen.DoneAt.Year() >= 0 && !seen.DoneAt.IsZero() && seen.DoneAt.Before(now) {
			data.At = seen.DoneAt.UTC()
		}
	case seen.Counts && seen.Since.Before(now):
		data.At = seen.Since
	}
	return data
}
