package main

import (
	"context"
	"strconv"
	"time"
)

// steps are those of the rule, with their delays.
var steps = map[string]time.Duration{"first": 2 * time.Second, "second": 5 * time.Second}

// fired is an event of the rule.
type fired struct {
	Subject, Type string
	Since         time.Time
	At            time.Time `db:"written_at"`
}

// checkRule compares the events of the rule with arithmetic.
func (t *torture) checkRule(ctx context.Context, m *mutator) error {
	var events []fired
	err := t.admin.SelectContext(ctx, &events, `
		select subject, type, (data->>'since')::timestamptz as since, written_at
		from prescient.event_outbox where subject like 'orders/%' and type not like 'prescient.notify.%'`)
	if err != nil {
		return err
	}
	t.counts["events of the rule"] = len(events)
	for _, o := range m.orders {
		t.counts["changes asked for"] += len(o.starts)
	}
	checkSteps(m.orders, events, t.clock, t.broken)
	return nil
}

// checkSteps expects each step once for each start of the clock that was not over before the step was due. An order
// that was paid after the instant of a step, and before its slot was run, may go either way.
func checkSteps(orders []*order, events []fired, c *clock, broken func(string, ...any)) {
	type step struct {
		order, name string
		since       int64
	}
	of := map[step][]fired{}
	for _, e := range events {
		s := step{e.Subject, e.Type, e.Since.UnixMicro()}
		of[s] = append(of[s], e)
	}
	for _, o := range orders {
		for i, start := range o.starts {
			for name, after := range steps {
				s := step{"orders/" + strconv.FormatInt(o.id, 10), name, start.at.UnixMicro()}
				due, n := start.at.Add(after), len(of[s])
				// After a step of the clock a row may come when several steps have passed, and then the last of them fires.
				sure, ends := start.known == done && c == nil, o.over
				if i+1 < len(o.starts) && o.starts[i+1].known != none {
					ends = &o.starts[i+1]
				}
				if ends != nil && ends.known != none {
					sure = false
				}
				switch {
				case n > 1:
					broken("order %d: %s fired %d times", o.id, name, n)
				case start.known == none && n > 0:
					broken("order %d: %s fired for a start that was rolled back", o.id, name)
				case sure && n == 0:
					broken("order %d: %s did not fire", o.id, name)
				case n > 0 && ends != nil && ends.known == done && c.latest(ends.ended).Before(due):
					broken("order %d was over %v before %s, which fired", o.id, due.Sub(ends.ended), name)
				case n > 0 && c == nil && of[s][0].At.Before(due):
					broken("order %d: %s fired %v too early", o.id, name, due.Sub(of[s][0].At))
				}
				delete(of, s)
			}
		}
	}
	for s := range of {
		broken("%s: %s fired for a start at %v, which there was not", s.order, s.name, time.UnixMicro(s.since))
	}
}

// published are the events of a schedule, in their order.
type published struct {
	ID     string
	Anchor time.Time
	At     time.Time `db:"time"`
}

// checkSchedules expects each instant of a schedule once, up to the last ones before the schedules were paused.
func (t *torture) checkSchedules(ctx context.Context) error {
	var events []published
	err := t.admin.SelectContext(ctx, &events, `
		select s.id, s.anchor, coalesce(e.time, s.anchor) as time
		from prescient.schedule s
		left join prescient.event_outbox e on e.subject = s.id
		order by s.id, e.mark, e.position`)
	if err != nil {
		return err
	}
	t.counts["events of schedules"] = len(events)
	checkInstants(events, t.paused, t.width(), t.clock != nil, t.broken)
	return nil
}

// checkInstants expects the instants of a schedule in their order. Of those that an hour's step passes over, a run
// publishes the newest hundred.
func checkInstants(events []published, until time.Time, width time.Duration, steps bool, broken func(string, ...any)) {
	of := map[string][]published{}
	for _, e := range events {
		of[e.ID] = append(of[e.ID], e)
	}
	for id, every := range schedules {
		var last time.Time
		for _, e := range of[id] {
			if last.IsZero() {
				last = e.Anchor // the first instant is the one after it
			}
			if e.At.Equal(e.Anchor) {
				continue // there is no event yet
			}
			if step := e.At.Sub(last); step != every && (!steps || step <= 0) {
				broken("schedule %s: the event after that of %v is %v later, want %v", id, last, step, every)
			}
			last = e.At
		}
		if late := until.Sub(last); late > every+4*width {
			broken("schedule %s: the last event is %v before the end", id, late)
		}
	}
}
