package forecast

import (
	"encoding/json"
	"strings"
	"time"
)

// visit is the time that a row spent in a slot: it came at some instant and was checked there, or somebody took it away.
type visit struct {
	slot    time.Time
	arrived time.Time
	left    time.Time // when it was taken away; zero: its slot was run
	exact   bool      // it was asked for at the instant of a slot
}

// was tells whether the row was in its slot at an instant.
func (v visit) was(at time.Time) bool {
	return !v.arrived.After(at) && (v.left.IsZero() || v.left.After(at))
}

// lead is how long before its slot the row came.
func (v visit) lead() time.Duration { return v.slot.Sub(v.arrived) }

// life is a row of a sample.
type life struct {
	job        string
	enqueuedAt time.Time
	firstSlot  time.Time
	trace      string
	slot       time.Time // the last one
	endedAt    time.Time // zero: it waits
	removed    bool      // somebody has cancelled or replaced it
	exact      bool
}

// visits returns what is known of the slots that a row was in, but for the one it waits in.
func (l life) visits() (list []visit) {
	arrived, moves := l.enqueuedAt, 0
	known := true // when it came into its slot
	for line := range strings.Lines(l.trace) {
		e, ok := parseEntry(line)
		if !ok {
			continue
		}
		if moves == 0 && !e.slot.Equal(l.firstSlot) { // the beginning of a long trace is cut off
			known = false
		}
		v := visit{slot: e.slot, arrived: arrived, exact: moves > 0 || l.exact}
		if e.taken {
			v.left = e.at
		}
		if known && !e.returned {
			list = append(list, v)
		}
		arrived, known = e.at, true
		moves++
	}
	if l.endedAt.IsZero() || moves == 0 && !l.slot.Equal(l.firstSlot) {
		return list
	}
	v := visit{slot: l.slot, arrived: arrived, exact: moves > 0 || l.exact}
	if l.removed {
		v.left = l.endedAt
	}
	return append(list, v)
}

// entry is a line of a trace that tells of a move; see prescient.trace_entry.
type entry struct {
	slot     time.Time // that it was in
	at       time.Time // when it left it
	taken    bool      // it was not checked there
	returned bool      // it came back from history: it was in no slot
}

func parseEntry(line string) (e entry, moved bool) {
	if strings.HasPrefix(line, "{") {
		var change struct {
			What string `json:"what"`
			At   int64  `json:"at"`
			Slot int64  `json:"slot"`
		}
		if json.Unmarshal([]byte(line), &change) != nil {
			return e, false
		}
		switch change.What {
		case "rescheduled", "pushed_back", "width", "retried":
		default:
			return e, false
		}
		return entry{time.Unix(change.Slot, 0).UTC(), time.UnixMilli(change.At).UTC(), true, change.What == "retried"}, true
	}
	var parts []json.RawMessage
	var what string
	var slot, late, at int64
	if json.Unmarshal([]byte(line), &parts) != nil || len(parts) < 2 || json.Unmarshal(parts[0], &what) != nil || json.Unmarshal(parts[1], &slot) != nil {
		return e, false
	}
	e.slot = time.Unix(slot, 0).UTC()
	if len(parts) > 3 && json.Unmarshal(parts[3], &late) == nil {
		e.at = e.slot.Add(time.Duration(late) * time.Millisecond)
	}
	if e.taken = what == "deferred"; e.taken && len(parts) > 6 && json.Unmarshal(parts[6], &at) == nil {
		e.at = time.UnixMilli(at).UTC()
	}
	return e, !e.at.IsZero()
}

// curve is when the rows of a job come into their slots, and which are taken away: of the visits that have ended by some
// instant.
type curve []visit

// late is the part of the rows of a slot that come less than ahead before it; 0 where nothing is known.
func (c curve) late(ahead time.Duration) float64 {
	late, all := 0.0, 0.0
	for _, v := range c {
		if v.left.IsZero() {
			all++
			if v.lead() < ahead {
				late++
			}
		}
	}
	return ratio(late, all, 0)
}

// kept is the part of what waits so long before its slot that is still there when that is run; 1 where nothing is known.
func (c curve) kept(ahead time.Duration) float64 {
	kept, all := 0.0, 0.0
	for _, v := range c {
		if v.was(v.slot.Add(-ahead)) {
			all++
			if v.left.IsZero() {
				kept++
			}
		}
	}
	return ratio(kept, all, 1)
}

// exact is the part of the rows that were asked for at the instant of a slot; 1 where nothing is known.
func (c curve) exact() float64 {
	exact := 0.0
	for _, v := range c {
		if v.exact {
			exact++
		}
	}
	return ratio(exact, float64(len(c)), 1)
}

func ratio(n, of, otherwise float64) float64 {
	if of == 0 {
		return otherwise
	}
	return n / of
}
