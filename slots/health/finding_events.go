package health

import (
	"fmt"
	"strings"

	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots/ledger"
)

func consumers(r *Report, threshold float64) (list []Finding) {
	for _, name := range r.consumers {
		what := "consumer " + spoken.Word(name) + " of the outbox gets no events: its position is"
		if name == "" {
			what = "the outbox has events that no reader gets: their positions are"
		}
		list = append(list, r.found(float64(len(r.consumers)) > threshold, "migrate up",
			"%s another server's, as after a restore from a dump. migrate up gives the outbox positions of this server, and "+
				"loses nothing", what)...)
	}
	return list
}

// behind tells a destination that fails, refuses events, or gets none because nothing forwards. Events wait for up to a
// width for the next run: a digest that is due, and what a receiver did not take in the last run.
func behind(r *Report, threshold float64) (list []Finding) {
	threshold += r.Grid.Width().Seconds()
	for _, b := range r.behind {
		failing := !b.FailingSince.IsZero() || b.Refuses
		if !failing && r.Now.Sub(b.Since).Seconds() <= threshold {
			continue
		}
		var waits []string
		if b.Waiting.N > 0 {
			waits = append(waits, b.Waiting.Of("event waits", "events wait")+" in the outbox")
		}
		if b.Refused.N > 0 {
			waits = append(waits, b.Refused.Of("refused event is", "refused events are")+" tried again")
		}
		if b.Due.N > 0 {
			waits = append(waits, b.Due.Of("due message waits", "due messages wait"))
		}
		text := fmt.Sprintf("destination %s (%s) is behind: %s, the oldest since %s", b.Name, b.Address,
			strings.Join(waits, ", and "), r.since(b.Since))
		switch {
		case failing && b.Error != "":
			text += fmt.Sprintf(". The last error: %s. Mend the destination; its events are then sent",
				strings.TrimSuffix(oneLine(b.Error), "."))
		case !b.Held:
			text += ". No process forwards: events leave at the end of a run, in a daemon, and by events forward. " +
				"If the settings have the destination no more, forget it with events forget " + spoken.Word(b.Name)
		}
		list = append(list, about(b.Name, r.found(true, "events forward", "%s", text))...)
	}
	return list
}

// unknownReceivers tells receivers that rules or schedules notify and that no run has.
func unknownReceivers(r *Report, threshold float64) (list []Finding) {
	for _, u := range r.receivers {
		list = append(list, about(u.Name, r.found(float64(len(r.receivers)) > threshold, "receivers list",
			"no run has a receiver %s, and %s it: %s. Add the receiver to receivers in the settings of the runs, "+
				"or correct its name in notify. A new receiver gets the messages that are written from then on",
			u.Name, spoken.List(u.Of)+spoken.Noun(len(u.Of), " notifies", " notify"), messagesFor(r, u)))...)
	}
	return list
}

// messagesFor tells the messages for an unknown receiver.
func messagesFor(r *Report, u ledger.UnknownReceiver) string {
	in := "in the outbox"
	if u.Messages.AtLeast {
		in = "among the newest 10,000 events of the outbox"
	}
	switch {
	case u.Messages.N > 0:
		return fmt.Sprintf("%s %s, the oldest since %s, which no person gets",
			spoken.Count(u.Messages.N, "message for it is", "messages for it are"), in, r.since(u.Since))
	case u.Messages.AtLeast:
		return "no message for it is " + in
	default:
		return "no message was written for it yet"
	}
}

// unread tells a consumer for which the outbox keeps old events.
func unread(r *Report, threshold float64) (list []Finding) {
	for _, u := range r.unread {
		list = append(list, about(u.Name, r.found(r.Now.Sub(u.Since).Seconds() > threshold, "events consumers",
			"consumer %s of the outbox has not read what was written since %s. The outbox, of %d MB, keeps these events. "+
				"Let it read them, or forget it with events forget %s", spoken.Word(u.Name), r.since(u.Since), u.Bytes>>20,
			spoken.Word(u.Name)))...)
	}
	return list
}

func deadLetters(r *Report, threshold float64) []Finding {
	return r.found(float64(r.dead) > threshold, "events dead",
		"%s since %s: the destination refused them, or they are held back behind such an event. "+
			"Send them again with events resend, or discard them", spoken.Count(r.dead, "event is a dead letter",
			"events are dead letters"), r.since(r.deadSince))
}

func betweenStores(r *Report, threshold float64) (list []Finding) {
	rows := int64(0)
	for _, l := range r.leaving {
		rows += l.Rows
	}
	if rows == 0 {
		return nil
	}
	first := r.leaving[0]
	return r.found(r.Now.Sub(first.Since).Seconds() > threshold, "stores move "+first.From+" --finish",
		"%s on the way from here to store %s since %s: the move was cut short. Finish it, and repeat it for the rest",
		spoken.Count(rows, "row is", "rows are"), first.To, r.since(first.Since))
}
