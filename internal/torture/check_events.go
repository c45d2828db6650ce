package main

import (
	"context"
	"slices"
	"strings"
	"time"
)

// written is an event of the outbox.
type written struct{ ID, Subject, Text string }

// checkDestinations expects that each destination has accepted each of its events, those of a subject in order.
func (t *torture) checkDestinations(ctx context.Context, starts []started) error {
	for _, d := range t.destinations {
		var events []written
		err := t.admin.SelectContext(ctx, &events, `
			select id, coalesce(subject, '') as subject, coalesce(data->>'text', '') as text
			from prescient.event_outbox
			where (type like 'prescient.notify.%') = $1
			order by mark, position`, d.name == ops)
		if err != nil {
			return err
		}
		t.counts["events for "+d.name] = len(events)
		t.counts["requests that "+d.name+" accepted"], t.counts["requests that "+d.name+" refused"] = len(d.accepted), d.refusals
		if d.name == ops {
			t.counts["messages that were told together"] = checkMessages(events, d.accepted, t.broken)
		} else {
			checkArrivals(d.name, events, d.accepted, t.broken)
		}
	}
	if len(t.destinations) > 0 {
		t.compareLateness(starts)
	}
	return nil
}

// checkArrivals expects each event among those that were accepted. A repeat may come later than the next event of its
// subject, so the first arrivals have the order.
func checkArrivals(name string, events []written, got []accepted, broken func(string, ...any)) {
	first := map[string]int{}
	for i, a := range got {
		if _, again := first[a.id]; !again {
			first[a.id] = i
		}
	}
	last := map[string]written{} // of each subject
	for _, e := range events {
		at, ok := first[e.ID]
		if !ok {
			broken("%s never got event %s of %s", name, e.ID, e.Subject)
			continue
		}
		if before, ok := last[e.Subject]; ok && e.Subject != "" && first[before.ID] > at {
			broken("%s got event %s of %s before event %s, which was written first", name, e.ID, e.Subject, before.ID)
		}
		last[e.Subject] = e
	}
	known := map[string]bool{}
	for _, e := range events {
		known[e.ID] = true
	}
	for _, a := range got {
		if !known[a.id] {
			broken("%s got event %s, and the outbox does not have it", name, a.id)
			known[a.id] = true
		}
	}
}

// checkMessages does the same for messages, of which several may come in one text. It returns how many did.
func checkMessages(events []written, got []accepted, broken func(string, ...any)) (together int) {
	of := map[string]string{} // the event of a text
	for _, e := range events {
		of[e.Text] = e.ID
	}
	var each []accepted
	for _, a := range got {
		lines := slices.DeleteFunc(strings.Split(a.text, "\n"), func(line string) bool { return of[line] == "" })
		if len(lines) == 0 {
			broken("%s got message %s, and the outbox does not have it: %s", ops, a.id, a.text)
		}
		if len(lines) > 1 {
			together += len(lines)
		}
		for _, line := range lines {
			each = append(each, accepted{id: of[line]})
		}
	}
	checkArrivals(ops, events, each, broken)
	return together
}

// compareLateness counts how late checks began while faults came: while a destination had a fault, and while none had
// one. Limits delay checks, too.
func (t *torture) compareLateness(starts []started) {
	late := map[bool][]time.Duration{}
	for _, s := range starts {
		if s.job != limitedJob && s.job != pacedJob && s.at.Before(t.calm) {
			in := t.troubled(s.at)
			late[in] = append(late[in], s.at.Sub(s.slot))
		}
	}
	for in, name := range map[bool]string{true: "while a destination had a fault", false: "while none had one"} {
		if list := late[in]; len(list) > 0 {
			slices.Sort(list)
			t.counts["checks started "+name] = len(list)
			t.counts["their median lateness (ms) "+name] = int(list[len(list)/2].Milliseconds())
		}
	}
}
