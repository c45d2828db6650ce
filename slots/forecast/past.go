package forecast

import (
	"math"
	"slices"
	"time"

	"github.com/prescient-go/prescient/slots"
)

// ran is a slot of the past that is done.
type ran struct {
	slot    time.Time
	kind    slots.Kind
	took    time.Duration
	delay   time.Duration // from the slot to its opening
	runners int           // 0: not known
	workers int           // of all of them
	rows    map[string]float64
	spent   map[string]time.Duration // run time of the checks
}

// past is what the ledger has of the past.
type past struct {
	bySlot map[int64]*ran
	list   []*ran // oldest first
}

func newPast(list []*ran) past {
	p := past{bySlot: map[int64]*ran{}, list: list}
	for _, r := range list {
		p.bySlot[r.slot.Unix()] = r
	}
	return p
}

// before is the past as it was known at an instant.
func (p past) before(now time.Time) past {
	n, _ := slices.BinarySearchFunc(p.list, now, func(r *ran, now time.Time) int { return r.slot.Compare(now) })
	return past{p.bySlot, p.list[:n]}
}

// last is the last slot of the past, the zero time where there is none.
func (p past) last() time.Time {
	if len(p.list) == 0 {
		return time.Time{}
	}
	return p.list[len(p.list)-1].slot
}

const (
	day = 24 * time.Hour
	// lookBack is how many days of the past count.
	lookBack = 14
)

// usual is how many rows of a job a slot of this time of day has: yesterday counts most, and the same day of the week three
// times as much as another. Of a ledger that is younger than a day it is the mean of its slots.
func (p past) usual(job string, slot time.Time) float64 {
	var sum, weights float64
	last := p.last()
	for days := 1; days <= lookBack; days++ {
		r := p.bySlot[slot.Add(-time.Duration(days)*day).Unix()]
		if r == nil || r.slot.After(last) {
			continue
		}
		weight := math.Pow(0.8, float64(days))
		if days%7 == 0 {
			weight *= 3
		}
		sum += weight * r.rows[job]
		weights += weight
	}
	if weights > 0 {
		return sum / weights
	}
	for _, r := range p.list {
		if last.Sub(r.slot) < day {
			sum += r.rows[job]
			weights++
		}
	}
	return sum / max(weights, 1)
}

// confidence is how many rows what is usual counts for, beside those that are there already.
const confidence = 50

// rows is how many rows of a job a slot will have when it is run, of which so many wait now: the part of them that is kept,
// and those that come late. How many come is told by what is usual and, where more or less than usual is there already, by
// that, too.
func (p past) rows(job string, slot time.Time, late, kept, waiting float64) float64 {
	waiting *= kept
	usual := p.usual(job, slot)
	if late == 0 || usual == 0 {
		return waiting
	}
	level := (confidence + waiting) / (confidence + usual*(1-late))
	return waiting + late*usual*min(max(level, 0.5), 2)
}
