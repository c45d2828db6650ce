package learn

import (
	"time"
)

// mostLooks bounds the looks of a plan.
const mostLooks = 1000

// last is the age after which history knows nothing.
func (c *Curve) last() float64 { return float64(c.Ages[len(c.Ages)-1]) }

// shares are the ages at which a share of those that were still open have ended, each time, as far as history knows.
func (c *Curve) shares(share, width float64) (looks []float64) {
	age := float64(c.Ages[0])
	for open := 1 - c.At(age); open > 0.01 && len(looks) < mostLooks; open = 1 - c.At(age) {
		next, ok := c.reach(1-open*(1-share), width)
		if !ok || max(next, age+width) > c.last()-width {
			break
		}
		age = max(next, age+width)
		looks = append(looks, age)
	}
	return append(looks, c.last())
}

// every are ages from the first slot on, at an interval.
func (c *Curve) every(interval float64) (looks []float64) {
	for age := 0.0; age < c.last() && len(looks) < mostLooks; age += interval {
		looks = append(looks, age)
	}
	return append(looks, c.last())
}

// cost is how many checks a row has with looks at ages, on average, and how long after it is finished that is found.
func (c *Curve) cost(looks []float64) (checks, delay float64) {
	before := float64(c.Ages[0])
	for _, look := range looks {
		checks += 1 - c.At(before)
		delay += c.late(before, look)
		before = look
	}
	if finished := c.At(before); finished > 0 {
		delay /= finished
	}
	return checks, delay
}

// late is how long rows that are finished after one age wait for a look at another, added up and weighed by their part.
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

// delays is how long after they were finished rows were found so, on average.
func (c *Curve) delays(rows []row) time.Duration {
	sum, n := 0.0, 0.0
	for _, r := range rows {
		if k, ok := r.interval(); ok && k.to < forever {
			from, to := float64(k.from), float64(k.to)
			late := (to - from) / 2
			if part := c.At(to) - c.At(from); part > 0 {
				late = c.late(from, to) / part
			}
			sum, n = sum+late, n+1
		}
	}
	return seconds(sum / max(1, n))
}

// halve returns the looks by the lowest share that need no more checks than that; nil: there are none.
func (c *Curve) halve(checks, width float64) []float64 {
	for share := 0.02; share < 0.985; share += 0.02 {
		looks := c.shares(share, width)
		if n, _ := c.cost(looks); n <= checks {
			return looks
		}
	}
	return nil
}

// fixed returns the looks at the shortest interval that needs no more checks than that; nil: there is none.
func (c *Curve) fixed(checks, width float64) []float64 {
	short, long := width, max(2*width, c.last())
	for range 40 {
		middle := (short + long) / 2
		if n, _ := c.cost(c.every(middle)); n > checks {
			short = middle
		} else {
			long = middle
		}
	}
	looks := c.every(long)
	if n, _ := c.cost(looks); n > checks {
		return nil
	}
	return looks
}

// planned is how many of the next looks a plan names.
const planned = 5

func (c *Curve) plan(looks []float64, ahead float64) *Plan {
	checks, delay := c.cost(looks)
	p := &Plan{First: seconds(max(0, ahead+looks[0])), Checks: checks, Delay: seconds(delay)}
	for i := 1; i < min(len(looks), planned+1); i++ {
		p.Next = append(p.Next, seconds(looks[i]-looks[i-1]))
	}
	return p
}
