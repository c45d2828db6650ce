package learn

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Curve is what part of the rows of a job, or of a class of them, is finished at which age. It is not changed once it was made,
// and safe for concurrent use.
type Curve struct {
	Job   string
	Class string // the value of the field of jobs.LearnedBy; empty: all rows of the job
	// Ages are in seconds after the first slot of a row, in order; Finished is the part that is finished by then, from 0 to 1, and
	// rises evenly in between. None: there is too little history.
	Ages     []int64
	Finished []float64
	// Sampled is how many rows of history it is from.
	Sampled    int64
	ComputedAt time.Time // UTC, by the clock that slots are compared with
}

// At is the part that is finished at an age.
func (c *Curve) At(age float64) float64 {
	i, exact := slices.BinarySearchFunc(c.Ages, age, func(a int64, age float64) int { return cmp.Compare(float64(a), age) })
	switch {
	case exact:
		return c.Finished[i]
	case i == 0:
		return 0
	case i == len(c.Ages):
		return c.Finished[i-1]
	}
	from, to := float64(c.Ages[i-1]), float64(c.Ages[i])
	return c.Finished[i-1] + (c.Finished[i]-c.Finished[i-1])*(age-from)/(to-from)
}

// reach is the age at which a part is finished. A step that is no longer than the finest is not divided: what is finished in it
// is finished at its end. ok is false where history knows of no such age.
func (c *Curve) reach(part, finest float64) (age float64, ok bool) {
	i, _ := slices.BinarySearchFunc(c.Finished, part-1e-9, cmp.Compare[float64])
	switch {
	case i == len(c.Ages):
		return 0, false
	case i == 0:
		return float64(c.Ages[0]), true
	}
	from, to := float64(c.Ages[i-1]), float64(c.Ages[i])
	if to-from <= finest {
		return to, true
	}
	return from + (to-from)*(part-c.Finished[i-1])/(c.Finished[i]-c.Finished[i-1]), true
}

// spent is how much of a curve is so little that nothing is known of the rows that are left.
const spent = 1e-3

// share is the part of the rows that must have ended before a look, of those that are open, where a row has so many looks
// left: of a thousand rows one has none left at last. With three looks it is 90 %, and with ten 50 %.
func share(looks int) float64 { return 1 - math.Pow(1e-3, 1/float64(max(1, looks))) }

// next is the age, between a minimum and a maximum from now on, at which a share of the rows that are open at this age have ended; the
// maximum where history knows of none.
func (c *Curve) next(age, share, minimum, maximum float64) float64 {
	open := 1 - c.At(age)
	next := age + maximum
	if open > spent {
		if at, ok := c.reach(1-open*(1-share), minimum); ok {
			next = at
		}
	}
	return min(max(next, age+minimum), age+maximum)
}

// ended is the part of the rows that are open at an age which have ended by another; 0 where there is none of them.
func (c *Curve) ended(age, by float64) float64 {
	open := 1 - c.At(age)
	if open <= spent {
		return 0
	}
	return (c.At(by) - c.At(age)) / open
}
