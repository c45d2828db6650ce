package forecast

import "math"

// sample is an observation: a value, and the terms that should add up to it.
type sample struct {
	terms  []term
	value  float64
	weight float64
}

type term struct {
	column int
	value  float64
}

const (
	// trust is the weight of the assumption that a factor is 1, relative to a sample.
	trust = 0.01
	// rounds is how often the fit repeats. After each round, samples that are off by more than
	// tolerance count less.
	rounds, steps = 5, 100
	tolerance     = 0.5
	// shortest is the value, in seconds, below which absolute instead of relative errors count.
	shortest = 0.02
)

// cell is a term and the sample that it belongs to.
type cell struct {
	sample int
	value  float64
}

// fit finds one factor for each column, none negative, by least squares of the relative errors.
// With little data, factors stay near 1. It solves one factor after another until they stop moving.
func fit(samples []sample, columns int) []float64 {
	factors, cells := make([]float64, columns), make([][]cell, columns)
	left := make([]float64, len(samples)) // unexplained part of each value
	for i, s := range samples {
		left[i] = s.value
		for _, t := range s.terms {
			left[i] -= t.value
			cells[t.column] = append(cells[t.column], cell{i, t.value})
		}
	}
	for i := range factors {
		factors[i] = 1
	}
	weights := make([]float64, len(samples))
	for round := range rounds {
		for i, s := range samples {
			// An observed value that is small by chance is a bad scale, so the explained value
			// counts.
			scale := s.value
			if round > 0 {
				scale -= left[i]
			}
			scale = max(scale, shortest)
			weights[i] = s.weight / (scale * scale) * min(1, tolerance/max(math.Abs(left[i])/scale, tolerance))
		}
		for range steps {
			moved := 0.0
			for column := range factors {
				moved += solve(&factors[column], cells[column], weights, left)
			}
			if moved < 1e-4*float64(columns) {
				break
			}
		}
	}
	return factors
}

// solve finds the best value of one factor while the others stay, and returns by how much it has
// moved.
func solve(factor *float64, cells []cell, weights, left []float64) float64 {
	over, under := trust, trust
	for _, c := range cells {
		over += weights[c.sample] * c.value * (left[c.sample] + c.value**factor)
		under += weights[c.sample] * c.value * c.value
	}
	change := max(0, over/under) - *factor
	for _, c := range cells {
		left[c.sample] -= c.value * change
	}
	*factor += change
	return math.Abs(change)
}
