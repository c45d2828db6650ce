package forecast

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/prescient-go/prescient/slots"
)

const (
	// perSlot and perRow are what opening and closing a slot, and reading and recording a row, take where nothing else is known.
	perSlot = 20 * time.Millisecond
	perRow  = 10 * time.Microsecond
	// halfLife is after what time a slot of the past counts half.
	halfLife = 3 * day
)

// crew is who runs a slot: so many runners that do so many checks at once, each.
type crew struct{ runners, workers float64 }

// cost is how long slots take: so much for the slot, and for each row of a job its share of the server's time, which is the
// same for everybody, and of the time of its checks, which all workers share. By how much a job differs from that, since fewer
// of its checks run at once perhaps, or it takes them in batches, is learned from the past.
type cost struct {
	slot    float64            // seconds
	factor  map[string]float64 // of a job; 1: it takes what was assumed
	check   map[string]float64 // seconds that a check of a row takes
	crew    crew               // the usual one
	delay   time.Duration      // from a slot to its opening
	learned int
}

// assumed is what a row takes of the run time of a slot.
func assumed(check float64, c crew) float64 { return perRow.Seconds() + check/(c.runners*c.workers) }

// row is how long a row of a job takes, in seconds, and how much of that is the time of its checks.
func (c cost) row(job string, by crew) (all, checks float64) {
	factor := 1.0
	if f, known := c.factor[job]; known {
		factor = f
	}
	// Of a job that does not do half as many at once as there are workers, more of them do no more.
	if c.crew.workers > 0 && factor > 2 && by.workers > c.crew.workers {
		by.workers = c.crew.workers
	}
	return factor * assumed(c.check[job], by), factor * c.check[job] / (by.runners * by.workers)
}

// took is how long a slot takes, in seconds.
func (c cost) took(rows map[string]float64, by crew) float64 {
	sum := c.slot
	for job, n := range rows {
		all, _ := c.row(job, by)
		sum += n * all
	}
	return sum
}

// done is after what time the last row of a job is done: jobs have their turns, so one with few rows is done early.
func (c cost) done(rows map[string]float64, job string, by crew) float64 {
	all, _ := c.row(job, by)
	own, sum := rows[job]*all, c.slot
	for other, n := range rows {
		each, _ := c.row(other, by)
		sum += min(n*each, own)
	}
	return sum
}

// learn learns from the past what slots cost, by least squares of the relative errors, with the assumptions as a prior, so that
// few slots are enough; slots that nothing explains count less.
func learn(p past) cost {
	c := cost{slot: perSlot.Seconds(), factor: map[string]float64{}, check: map[string]float64{}, crew: crew{1, slots.DefaultWorkers}}
	c.meet(p)
	if by, ok := p.usualCrew(); ok {
		c.crew = by
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

// meet learns what the checks of each job take, and how late the slots of the last day were opened.
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

// usualCrew is the one that half of the rows have had at the least: a slot with few is done before others take part. A slot counts
// half a day later, and none for more than half of all others, so that who helped once is not counted on.
func (p past) usualCrew() (by crew, ok bool) {
	type turn struct {
		crew
		weight float64
	}
	var turns []turn
	sum := 0.0
	for _, r := range p.list {
		t := turn{r.crew(), math.Exp2(-p.last().Sub(r.slot).Hours() / 24)}
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
		by = t.crew
		if half -= t.weight; half <= 0 {
			break
		}
	}
	return by, len(turns) > 0
}

// weightOf is what a slot counts, beside the last one.
func weightOf(slot, last time.Time) float64 {
	return math.Exp2(-last.Sub(slot).Hours() / halfLife.Hours())
}

// sample returns what a slot of the past should have taken by the assumptions, and what it took. Column 0 is what it takes to
// open and close it, the others are the jobs.
func (c *cost) sample(r *ran, last time.Time, column map[string]int) (s sample, ok bool) {
	if r.kind != slots.KindRun || r.took <= 0 || r.runners == 0 || r.workers == 0 || len(r.rows) == 0 {
		return s, false
	}
	by := r.crew()
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
