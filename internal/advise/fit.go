package advise

import (
	"cmp"
	"math"
	"slices"
)

const (
	// MinRows is how many rows must have been found finished for a curve.
	MinRows = 30
	// maxAges bounds the points of a curve.
	maxAges = 256
	// maxSteps bounds the steps of expectation and maximization. They end when no point moves by
	// more than still.
	maxSteps, still = 500, 1e-5
)

// interval says that a row was finished after from and by to, as ages in seconds. forever as to: it
// is unknown when.
type interval struct {
	from, to int64
	weight   float64
}

const forever = math.MaxInt64

// fit returns a curve of intervals, the newest first. The curve has no points if there is too
// little data.
func fit(known []interval) *Curve {
	finished := 0
	half := max(250, float64(len(known))/4) // rows after which a row weighs half as much
	for i := range known {
		known[i].weight = math.Exp2(-float64(i) / half)
		if known[i].to < forever {
			finished++
		}
	}
	c := &Curve{Ages: []int64{}, Finished: []float64{}}
	if finished < MinRows {
		return c
	}
	c.Ages = agesOf(known)
	mass := spread(known, c.Ages)
	sum := 0.0
	for i := range c.Ages {
		sum += mass[i]
		c.Finished = append(c.Finished, min(1, sum))
	}
	return c
}

// agesOf returns the ends of the intervals in order. If a curve cannot have that many, it picks
// some at even ranks.
func agesOf(known []interval) []int64 {
	var ends []int64
	for _, k := range known {
		ends = append(ends, k.from)
		if k.to < forever {
			ends = append(ends, k.to)
		}
	}
	slices.Sort(ends)
	if ages := slices.Compact(slices.Clone(ends)); len(ages) <= maxAges {
		return ages
	}
	var ages []int64
	for i := range maxAges {
		ages = append(ages, ends[i*(len(ends)-1)/(maxAges-1)])
	}
	return slices.Compact(ages)
}

// spread returns the most likely mass of each step, which ends at an age. The last mass is finished
// later. The first guess is the length of each step, so that the curve rises linearly if nothing is
// known.
func spread(known []interval, ages []int64) []float64 {
	n := len(ages)
	mass := make([]float64, n+1)
	for i := 1; i < n; i++ {
		mass[i] = float64(ages[i] - ages[i-1])
	}
	mass[n] = float64(ages[n-1]-ages[0]) / float64(n)
	normalize(mass)
	known = merge(known, ages)
	before := make([]float64, n+2) // sum of the masses before each step
	share := make([]float64, n+2)  // share of each step in the intervals that begin with it, less those that have ended
	for range maxSteps {
		for i, m := range mass {
			before[i+1] = before[i] + m
		}
		clear(share)
		for _, k := range known {
			if in := before[k.to+1] - before[k.from+1]; in > 0 {
				share[k.from+1] += k.weight / in
				share[k.to+1] -= k.weight / in
			}
		}
		moved, sum := 0.0, 0.0
		next := make([]float64, n+1)
		for i, m := range mass {
			sum += share[i]
			next[i] = max(0, m*sum)
		}
		normalize(next)
		for i := range mass {
			moved = max(moved, math.Abs(next[i]-mass[i]))
		}
		if mass = next; moved < still {
			break
		}
	}
	return mass
}

// merge maps the ends of intervals to the indexes of the enclosing ages, and adds up equal
// intervals.
func merge(known []interval, ages []int64) []interval {
	list := make([]interval, len(known))
	for i, k := range known {
		from, exact := slices.BinarySearch(ages, k.from)
		if !exact {
			from--
		}
		to := len(ages)
		if k.to < forever {
			to, _ = slices.BinarySearch(ages, k.to)
		}
		list[i] = interval{int64(max(0, from)), int64(to), k.weight}
	}
	slices.SortStableFunc(list, func(a, b interval) int {
		return cmp.Or(cmp.Compare(a.from, b.from),
			cmp.Compare(a.to, b.to))
	})
	n := 0
	for i := range list {
		if n > 0 && list[n-1].from == list[i].from && list[n-1].to == list[i].to {
			list[n-1].weight += list[i].weight
			continue
		}
		list[n] = list[i]
		n++
	}
	return list[:n]
}

func normalize(mass []float64) {
	sum := 0.0
	for _, m := range mass {
		sum += m
	}
	for i := range mass {
		mass[i] /= sum
	}
}
