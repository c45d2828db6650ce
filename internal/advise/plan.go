package advise

import "github.com/prescient-go/prescient/internal/duration"

// mostLooks bounds the checks of a plan.
const mostLooks = 1000

// planner computes the cost of checking the rows of a curve at given ages.
type planner struct {
	*Curve
	// cancelled is the part of the finished rows that their owner cancelled: at once, and without
	// another check.
	cancelled float64
	width     float64 // of the slots
	ahead     float64 // from when a row was enqueued to its first slot
}

// last returns the age after which history knows nothing.
func (c *Curve) last() float64 { return float64(c.Ages[len(c.Ages)-1]) }

// shares returns ages. At each, the given share of the rows that were still open has finished, as
// far as history knows.
func (p planner) shares(share float64) (looks []float64) {
	age := float64(p.Ages[0])
	for open := 1 - p.At(age); open > 0.01 && len(looks) < mostLooks; open = 1 - p.At(age) {
		next, ok := p.reach(1-open*(1-share), p.width)
		if !ok || max(next, age+p.width) > p.last()-p.width {
			break
		}
		age = max(next, age+p.width)
		looks = append(looks, age)
	}
	return append(looks, p.last())
}

// every returns ages from the first slot on, at an interval.
func (c *Curve) every(interval float64) (looks []float64) {
	for age := 0.0; age < c.last() && len(looks) < mostLooks; age += interval {
		looks = append(looks, age)
	}
	return append(looks, c.last())
}

// cost returns how many checks a row has on average, if checked at the given ages, and how long
// after its end a check finds it.
func (p planner) cost(looks []float64) (checks, delay float64) {
	before := float64(p.Ages[0])
	for _, look := range looks {
		checks += 1 - (1-p.cancelled)*p.At(before) - p.cancelled*p.At(look)
		delay += p.late(before, look)
		before = look
	}
	if finished := p.At(before); finished > 0 {
		delay *= (1 - p.cancelled) / finished
	}
	return checks, delay
}

// late returns how long rows that finish after one age wait for a check at another, weighted by
// their part.
func (c *Curve) late(from, to float64) (sum float64) {
	ends := []float64{from}
	for _, age := range c.Ages {
		if a := float64(age); a > from && a < to {
			ends = append(ends, a)
		}
	}
	ends = append(ends, to)
	for i := 1; i < len(ends); i++ {
		sum += (c.At(ends[i]) - c.At(ends[i-1])) * (to - (ends[i]+ends[i-1])/2)
	}
	return sum
}

// delays returns the average time from when rows were finished until a check or their owner ended
// them.
func (p planner) delays(rows []row) duration.Text {
	sum, n := 0.0, 0.0
	for _, r := range rows {
		if k, ok := r.interval(); ok && k.to < forever {
			from, to := float64(k.from), float64(k.to)
			late := (to - from) / 2
			if part := p.At(to) - p.At(from); part > 0 {
				late = p.late(from, to) / part
			}
			if r.cancelled() {
				late = 0
			}
			sum, n = sum+late, n+1
		}
	}
	return seconds(sum / max(1, n))
}

// halve returns the ages by the lowest share that needs no more checks than given. Returns nil if
// there is none.
func (p planner) halve(checks float64) []float64 {
	for share := 0.02; share < 0.985; share += 0.02 {
		looks := p.shares(share)
		if n, _ := p.cost(looks); n <= checks {
			return looks
		}
	}
	return nil
}

// fixed returns the ages by the shortest interval that needs no more checks than given. Returns nil
// if there is none.
func (p planner) fixed(checks float64) []float64 {
	short, long := p.width, max(2*p.width, p.last())
	for range 40 {
		middle := (short + long) / 2
		if n, _ := p.cost(p.every(middle)); n > checks {
			short = middle
		} else {
			long = middle
		}
	}
	looks := p.every(long)
	if n, _ := p.cost(looks); n > checks {
		return nil
	}
	return looks
}

// planned is how many of the next checks a plan names.
const planned = 5

func (p planner) plan(looks []float64) *Plan {
	checks, delay := p.cost(looks)
	plan := &Plan{
		First: seconds(max(0, p.ahead+looks[0])), Next: []duration.Text{}, Checks: checks, Delay: seconds(delay),
	}
	for i := 1; i < min(len(looks), planned+1); i++ {
		plan.Next = append(plan.Next, seconds(looks[i]-looks[i-1]))
	}
	return plan
}
