package forecast

import (
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/journal"
)

// stay is the time that a row spent in a slot: from when it came until it was checked there or
// taken away.
type stay struct {
	slot    time.Time
	arrived time.Time
	left    time.Time // when it was taken away; zero: its slot was run
	exact   bool      // it was asked for at the instant of a slot
}

// was reports whether the row was in its slot at an instant.
func (v stay) was(at time.Time) bool {
	return !v.arrived.After(at) && (v.left.IsZero() || v.left.After(at))
}

// lead returns how long before its slot the row came.
func (v stay) lead() time.Duration { return v.slot.Sub(v.arrived) }

// rowHistory is the history of one row of a sample.
type rowHistory struct {
	job        string
	enqueuedAt time.Time
	firstSlot  time.Time
	journal    string
	slot       time.Time // the last slot
	finishedAt time.Time // zero: it still waits
	removed    bool      // it was cancelled or replaced
	exact      bool
}

// stays returns the known stays of a row, except in the slot that it waits in.
func (l rowHistory) stays() (list []stay) {
	arrived, moves := l.enqueuedAt, 0
	known := true // whether it is known when it came into its slot
	for line := range strings.Lines(l.journal) {
		e, ok := journal.ParseMove(line)
		if !ok {
			continue
		}
		if moves == 0 && !e.Slot.Equal(l.firstSlot) { // the beginning of a long timeline is cut off
			known = false
		}
		v := stay{slot: e.Slot, arrived: arrived, exact: moves > 0 || l.exact}
		if e.Taken {
			v.left = e.At
		}
		if known && !e.Returned {
			list = append(list, v)
		}
		arrived, known = e.At, true
		moves++
	}
	if l.finishedAt.IsZero() || moves == 0 && !l.slot.Equal(l.firstSlot) {
		return list
	}
	v := stay{slot: l.slot, arrived: arrived, exact: moves > 0 || l.exact}
	if l.removed {
		v.left = l.finishedAt
	}
	return append(list, v)
}

// stage counts stays at some lead before their slot. It counts those that were run, those of them
// that had not come yet, those that waited at that instant, and those of them that were run.
type stage struct {
	run, late, waited, kept float64
}

// add adds the counts of another stage.
func (s *stage) add(o stage) {
	s.run += o.run
	s.late += o.late
	s.waited += o.waited
	s.kept += o.kept
}

// stage returns the stage of one stay.
func (v stay) stage(ahead time.Duration) stage {
	run, waited := one(v.left.IsZero()), one(v.was(v.slot.Add(-ahead)))
	return stage{run, run * one(v.lead() < ahead), waited, waited * run}
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// rates holds the part of a slot's rows that comes late, and the part of the waiting rows that is
// kept until the run.
type rates struct{ late, kept float64 }

// regular is the number of stays in an hour of the day that weighs as much as all other hours.
// Late rows and cancellations have their time of day.
const regular = 20

// ratesOf returns the rates of an hour of the day. If that hour has few stays, all hours count
// more. If nothing is known, all rows come early and all are kept.
func ratesOf(hour, all stage) rates {
	late, kept := ratio(all.late, all.run, 0), ratio(all.kept, all.waited, 1)
	return rates{
		(hour.late + regular*late) / (hour.run + regular),
		(hour.kept + regular*kept) / (hour.waited + regular),
	}
}

// curve holds the stays of a job's rows, by the hour of the day of their slot. They tell when rows
// come and which are taken away.
type curve [24][]stay

// rates returns the rates of a slot, at some lead before it.
func (c *curve) rates(slot time.Time, ahead time.Duration) rates {
	var all, hour stage
	for i, stays := range c {
		for _, v := range stays {
			all.add(v.stage(ahead))
			if i == slot.Hour() {
				hour.add(v.stage(ahead))
			}
		}
	}
	return ratesOf(hour, all)
}

// exact returns the part of the rows that were asked for at the instant of a slot; 1 if nothing is
// known.
func (c *curve) exact() float64 {
	exact, all := 0.0, 0.0
	for _, stays := range c {
		for _, v := range stays {
			exact, all = exact+one(v.exact), all+1
		}
	}
	return ratio(exact, all, 1)
}

func ratio(n, of, otherwise float64) float64 {
	if of == 0 {
		return otherwise
	}
	return n / of
}
