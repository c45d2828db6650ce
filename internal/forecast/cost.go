package forecast

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/defaults"
	"github.com/prescient-go/prescient/slots"
)

const (
	// perSlot is the assumed time to open and close a slot, perRow to read and record a row. They
	// count while nothing else is known.
	perSlot = 20 * time.Millisecond
	perRow  = 10 * time.Microsecond
	// halfLife is the age at which a slot of the past counts half.
	halfLife = 3 * day
)

// capacity is the number of runners of a slot, and of workers in each.
type capacity struct{ runners, workers float64 }

// cost predicts how long slots take. A slot takes a fixed time. Each row adds its share of the
// server's time, which no worker shortens, and of its check's time, which all workers share. A
// factor for each job is learned from the past: its checks may run fewer at once, or in batches.
type cost struct {
	slot     float64            // seconds
	factor   map[string]float64 // of a job; 1: as assumed
	check    map[string]float64 // seconds for a check of a row
	capacity capacity           // the usual one
	delay    time.Duration      // from a slot to its opening
	learned  int
}

// assumed returns the assumed share of a row in the run time of a slot, in seconds.
func assumed(check float64, c capacity) float64 {
	return perRow.Seconds() + check/(c.runners*c.workers)
}

// row returns how long a row of a job takes, in seconds, and the part of it that is check time.
func (c cost) row(job string, by capacity) (all, checks float64) {
	factor := 1.0
	if f, known := c.factor[job]; known {
		factor = f
	}
	// If a job runs less than half as many checks at once as there are workers, more workers do not
	// help it.
	if c.capacity.workers > 0 && factor > 2 && by.workers > c.capacity.workers {
		by.workers = c.capacity.workers
	}
	return factor * assumed(c.check[job], by), factor * c.check[job] / (by.runners * by.workers)
}

// took returns how long a slot takes, in seconds.
func (c cost) took(rows map[string]float64, by capacity) float64 {
	sum := c.slot
	for job, n := range rows {
		all, _ := c.row(job, by)
		sum += n * all
	}
	return sum
}

// done returns the time in seconds until the last row of a job is done. Jobs take turns, so a job
// with few rows is done early.
func (c cost) done(rows map[string]float64, job string, by capacity) float64 {
	all, _ := c.row(job, by)
	own, sum := rows[job]*all, c.slot
	for other, n := range rows {
		each, _ := c.row(other, by)
		sum += min(n*each, own)
	}
	return sum
}

// learn learns the cost of slots from the past, by least squares of the relative errors. The
// assumptions are a prior, so that few slots are enough. Slots that nothing explains count less.
func learn(p past) cost {
	c := cost{
		slot: perSlot.Seconds(), factor: map[string]float64{}, check: map[string]float64{},
		capacity: capacity{1, defaults.Workers},
	}
	c.meet(p)
	if by, ok := p.usualCapacity(); ok {
		c.capacity = by
	}
	var samples []sample
	column := map[string]int{}
	for _, r := range p.list {
		if s, ok := c.sample(r, p.last(), column); ok {
			samples = append(samples, s)
		}
	}
	c.learned = len(samples)
	factors := fit(samples, len(column)+1)
	c.slot *= factors[0]
	for job, i := range column {
		c.factor[job] = factors[i]
	}
	return c
}

// meet learns how long the checks of each job take, and how late the slots of the last day were
// opened.
func (c *cost) meet(p past) {
	spent, rows := map[string]float64{}, map[string]float64{}
	var delays []time.Duration
	for i, r := range slices.Backward(p.list) {
		weight := weightOf(r.slot, p.last())
		for job, n := range r.rows {
			rows[job] += weight * n
			spent[job] += weight * r.spent[job].Seconds()
		}
		if r.kind != slots.KindRun || p.last().Sub(r.slot) >= day && len(p.list)-i > 20 {
			continue
		}
		if r.delay >= 0 && r.delay < day {
			delays = append(delays, r.delay)
		}
	}
	for job, n := range rows {
		c.check[job] = spent[job] / max(n, 1e-9)
	}
	if len(delays) > 0 {
		slices.Sort(delays)
		c.delay = delays[len(delays)/2]
	}
}

// usualCapacity returns the capacity that at least half of the rows had: a slot with few rows is
// done before other runners join. A slot a day older counts half. No slot counts more than half of
// all others, so that one helper is not counted on.
func (p past) usualCapacity() (by capacity, ok bool) {
	type turn struct {
		capacity
		weight float64
	}
	var turns []turn
	sum := 0.0
	for _, r := range p.list {
		t := turn{r.capacity(), math.Exp2(-p.last().Sub(r.slot).Hours() / 24)}
		if r.kind != slots.KindRun || t.runners == 0 || t.workers == 0 {
			continue
		}
		rows := 1.0
		for _, n := range r.rows {
			rows += n
		}
		t.weight *= rows
		sum += t.weight
		turns = append(turns, t)
	}
	half := 0.0
	for i := range turns {
		turns[i].weight = min(turns[i].weight, (sum-turns[i].weight)/2)
		half += turns[i].weight / 2
	}
	slices.SortFunc(turns, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.runners, b.runners), cmp.Compare(a.workers, b.workers))
	})
	for _, t := range turns {
		by = t.capacity
		if half -= t.weight; half <= 0 {
			break
		}
	}
	return by, len(turns) > 0
}

// weightOf returns the weight of a slot relative to the last one.
func weightOf(slot, last time.Time) float64 {
	return math.Exp2(-last.Sub(slot).Hours() / halfLife.Hours())
}

// sample returns the time that a slot of the past should have taken by the assumptions, and the
// time it took. Column 0 is the time to open and close it; the others are the jobs.
func (c *cost) sample(r *ran, last time.Time, column map[string]int) (s sample, ok bool) {
	if r.kind != slots.KindRun || r.took <= 0 || r.runners == 0 || r.workers == 0 || len(r.rows) == 0 {
		return s, false
	}
	by := r.capacity()
	s.terms = append(s.terms, term{0, perSlot.Seconds()})
	for job, n := range r.rows {
		if n == 0 {
			continue
		}
		if _, known := column[job]; !known {
			column[job] = len(column) + 1
		}
		s.terms = append(s.terms, term{column[job], n * assumed(c.check[job], by)})
	}
	s.value, s.weight = r.took.Seconds(), weightOf(r.slot, last)
	return s, true
}
