package advise

import (
	"cmp"
	"slices"
)

// Curve says which part of the rows of a job, or of a class of them, is finished at which age. It
// is never changed, and so safe for concurrent use.
type Curve struct {
	Job   string
	Class string // the value of the field By of Options; empty: all rows of the job
	// Ages are seconds after the first slot of a row, in order. Finished is the part that is
	// finished by then, from 0 to 1; it rises linearly in between. Both are empty if there is too
	// little history.
	Ages     []int64
	Finished []float64
}

// At returns the part that is finished at an age.
func (c *Curve) At(age float64) float64 {
	i, exact := slices.BinarySearchFunc(c.Ages, age, func(a int64, age float64) int {
		return cmp.Compare(float64(a), age)
	})
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

// reach returns the age at which a part is finished. In a step of at most finest, that is the end
// of the step. ok is false if history has no such age.
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
