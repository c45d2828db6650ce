package admin

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/spoken"
)

// Sentence describes the entry for people. now decides whether a slot is due. binary is how to call the command line,
// for advice.
func (e TimelineEntry) Sentence(now time.Time, binary string) string {
	text := sentence(e, now, binary) + fired(e)
	if len(e.StepsLeftOut) > 0 {
		text += ". Steps left out, because they had passed when the row came: " + strings.Join(e.StepsLeftOut, ", ")
	}
	if !e.PausedSince.IsZero() {
		text += ". Its clock is paused since " + spoken.Instant(e.PausedSince)
		if len(e.Used) > 0 {
			text += ". Of each delay had passed: " + strings.Join(e.Used, ", ")
		}
	}
	return text
}

func sentence(e TimelineEntry, now time.Time, binary string) string {
	slot := spoken.Instant(e.Slot)
	switch e.What {
	case "enqueued":
		requested := "requested" + who(e) + wanted(e)
		if e.Within > 0 {
			return fmt.Sprintf("%s, within %s: placed in slot %s", requested, spoken.Duration(e.Within), slot)
		}
		return requested + ": slot " + slot
	case "next":
		return "checked" + check(e) + ": it asked for another check"
	case "retry":
		return "checked" + check(e) + ", and failed: " + spoken.Error(e.Error)
	case "deferred":
		return fmt.Sprintf("moved out of slot %s%s unchecked, by %s", slot, into(e), e.Runner)
	case "rescheduled", "pushed_back":
		return fmt.Sprintf("%s out of slot %s%s%s", strings.ReplaceAll(e.What, "_", " "), slot, into(e), who(e))
	case "recorded":
		return fmt.Sprintf("requested again%s%s, while due in slot %s: recorded until that check has ended",
			who(e), wanted(e), slot)
	case "honoured":
		return fmt.Sprintf("enqueued%s, when the check in slot %s had ended", who(e), slot)
	case "width":
		return fmt.Sprintf("moved out of %s%s onto a grid of another width%s", slot, into(e), who(e))
	case "retried":
		return fmt.Sprintf("put back from history%s", who(e))
	case "acked":
		return fmt.Sprintf("acknowledged%s, because: %s", who(e), e.Error)
	case "moved":
		return fmt.Sprintf("moved from store %s to store %s%s", e.MovedFrom, e.MovedTo, who(e))
	case "renamed":
		return fmt.Sprintf("goes on from key %s, which its row had before,%s", e.KeyBefore, who(e))
	case "arriving":
		return "on its way here from another store, for slot " + slot
	case "waiting":
		return "waits for slot " + slot + due(e, now, binary)
	}
	return ended(e, slot)
}

// wanted says for when a check was requested, as far as this is known.
func wanted(e TimelineEntry) string {
	switch at := e.RequestedFor; {
	case at.IsZero():
		return ""
	case at.Equal(e.At):
		return ", as soon as possible"
	case at.Before(e.At.Truncate(time.Second)): // as they are shown
		return ", for " + at.Format(time.RFC3339Nano) + ", which had passed"
	default:
		return ", for " + at.Format(time.RFC3339Nano)
	}
}

// into names the slot that a row was moved to.
func into(e TimelineEntry) string {
	if e.To.IsZero() {
		return ""
	}
	return " into slot " + spoken.Instant(e.To)
}

// ended says how a row ended.
func ended(e TimelineEntry, slot string) string {
	text := "ended as " + e.What
	if e.Ran {
		text += ", checked" + check(e)
	} else {
		text += " in slot " + slot
	}
	if len(e.Instants) > 0 {
		text += ", called for " + instants(e.Instants)
	}
	if e.Error != "" {
		text += ": " + spoken.Error(e.Error)
	}
	text += found(e.Found)
	if !e.Ran {
		text += who(e)
	}
	if e.KeyAfter != "" {
		text += ". Its timeline goes on under key " + e.KeyAfter
	}
	if e.LeftOut {
		text += ". The request that was recorded is left out: " +
			"it wants no check so soon after an end as done (unless_ended_within)"
	}
	return text
}

// found says what the last check of a rule found.
func found(what string) string {
	switch what {
	case "":
		return ""
	case "open":
		return ". Its row is not done, and no step is left"
	case "outside":
		return ". Its row is outside of the rule: where is not true, or since is null"
	case "the rule is removed":
		return ". The rule is removed"
	}
	return ". Its row is " + what // done, done at an instant, or gone
}

// fewInstants is how many of the instants that a periodic function was called for are named.
const fewInstants = 20

// instants names the instants that a periodic function was called for.
func instants(list []time.Time) string {
	var names []string
	for _, at := range list[:min(len(list), fewInstants)] {
		names = append(names, spoken.Instant(at))
	}
	if more := len(list) - fewInstants; more > 0 {
		names = append(names, fmt.Sprintf("%s more up to %s", spoken.Count(more, "instant", "instants"),
			spoken.Instant(list[len(list)-1])))
	}
	return strings.Join(names, ", ")
}

// fired names the steps of a rule that have fired.
func fired(e TimelineEntry) string {
	if len(e.Fired) == 0 {
		return ""
	}
	var steps []string
	for _, s := range e.Fired {
		step := s.Step
		if s.Number > 1 {
			step = fmt.Sprintf("%s#%d", s.Step, s.Number)
		}
		steps = append(steps, step+" at "+spoken.Instant(s.At)+before(s))
	}
	return ". Steps fired: " + strings.Join(steps, ", ")
}

// before says how often a step has fired up to this time, when first, and how many times before this one it was due and
// did not fire.
func before(s Firing) string {
	times, left := s.Number-s.LeftOut, ""
	switch {
	case s.LeftOut == 0:
	case s.Number == 2:
		return " (#1 was left out)"
	case times == 1:
		return fmt.Sprintf(" (#1 to #%d were left out)", s.LeftOut)
	default:
		left = fmt.Sprintf("; %d of the %d times before it %s left out",
			s.LeftOut, s.Number-1, spoken.Noun(int64(s.LeftOut), "was", "were"))
	}
	if times == 1 {
		return ""
	}
	return fmt.Sprintf(" (%d times, the first at %s%s)", times, spoken.Instant(s.FirstAt), left)
}

// check describes a check, and the run of its slot.
func check(e TimelineEntry) string {
	text := fmt.Sprintf(" in slot %s by %s, %s after it, for %s", spoken.Instant(e.Slot),
		cmp.Or(e.Runner, "a runner whose name went with the ledger"),
		spoken.Duration(e.Lateness), spoken.Duration(e.Duration))
	switch {
	case e.Run == "by_hand":
		text += " (run by hand)"
	case e.Run == "catch_up":
		text += fmt.Sprintf(" (the slot was missed, and caught up on at %s)", spoken.Instant(e.OpenedAt))
	case e.Run != "" && e.OpenedAt.Sub(e.Slot) > time.Minute:
		text += fmt.Sprintf(" (the slot was opened at %s)", spoken.Instant(e.OpenedAt))
	}
	return text
}

// who names the role, actor and application of a change, or the check that made it.
func who(e TimelineEntry) string {
	switch {
	case e.ByRole == "":
		return ""
	case strings.HasPrefix(e.App, "prescient claim ") && strings.HasPrefix(e.Actor, "check of "):
		return " by a " + e.Actor
	case strings.HasPrefix(e.App, "prescient claim "):
		return strings.TrimSuffix(" by a check for "+e.Actor, " for ")
	}
	text := " by " + e.ByRole
	if e.Actor != "" {
		text += " for " + e.Actor
	}
	if e.App != "" {
		text += " (" + e.App + ")"
	}
	return text
}

// due says when a waiting row is due, and what blocks it.
func due(e TimelineEntry, now time.Time, binary string) string {
	text := ", in " + spoken.Distance(now, e.Slot)
	if !e.Slot.After(now) {
		text = ", due for " + spoken.Distance(e.Slot, now)
	}
	switch e.Hindrance {
	case "paused":
		if e.OfRule {
			return text + ", but its rule is paused: " + binary + " rules resume " + spoken.Word(e.JobExec)
		}
		text += ", but its job is paused: " + binary + " jobs resume " + spoken.Word(e.JobExec)
	case "unserved":
		text += ", but no run of the last 7 days had its job: it waits for one of a binary that has it"
	case "missed":
		text += ": no run has opened the slot, which catch-up does"
	case "open":
		text += ": the slot is being run, or was left open, which status tells"
	case "straggler":
		text += ": it was committed after the slot was closed, and catch-up takes it"
	}
	return text
}
