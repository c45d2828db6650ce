package backtest

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// maxFirst is how many first keys a step has.
const maxFirst = 5

// tally counts the rows of one step.
type tally struct {
	Step
	months map[time.Time]*Counts
	slots  map[time.Time]int64
}

func newTally(s Step) *tally {
	return &tally{Step: s, months: map[time.Time]*Counts{}, slots: map[time.Time]int64{}}
}

// month returns the counts of the month of an instant.
func (t *tally) month(since time.Time) *Counts {
	year, month, _ := since.UTC().Date()
	first := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
	if t.months[first] == nil {
		t.months[first] = &Counts{}
	}
	return t.months[first]
}

// fire counts a row for which the step would have fired. The times of a row come in order, and the first one is kept.
func (t *tally) fire(f Fired) {
	t.slots[f.Slot]++
	if slices.ContainsFunc(t.First, func(first Fired) bool { return first.Key == f.Key }) {
		return
	}
	i, _ := slices.BinarySearchFunc(t.First, f, compareFired)
	if i < maxFirst {
		t.First = slices.Insert(t.First, i, f)
		t.First = t.First[:min(len(t.First), maxFirst)]
	}
}

// step returns the sums.
func (t *tally) step() Step {
	s := t.Step
	s.Months, s.Slots = []Month{}, []Slot{}
	s.First, s.Unrecorded = append([]Fired{}, s.First...), append([]string{}, s.Unrecorded...)
	for at, counts := range t.months {
		s.Months = append(s.Months, Month{at, *counts})
		s.Fired, s.DoneNow, s.Met = s.Fired+counts.Fired, s.DoneNow+counts.DoneNow, s.Met+counts.Met
		s.Open, s.Again = s.Open+counts.Open, s.Again+counts.Again
		s.Recorded += counts.Recorded
	}
	slices.SortFunc(s.Months, func(a, b Month) int { return a.Month.Compare(b.Month) })
	for _, at := range slices.SortedFunc(maps.Keys(t.slots), time.Time.Compare) {
		s.Slots = append(s.Slots, Slot{at, t.slots[at]})
	}
	return s
}

// Busiest returns the slots with the most rows, at most n, the earliest first.
func (s Step) Busiest(n int) []Slot {
	list := slices.Clone(s.Slots)
	slices.SortStableFunc(list, func(a, b Slot) int { return cmp.Compare(b.Rows, a.Rows) })
	list = list[:min(n, len(list))]
	slices.SortFunc(list, func(a, b Slot) int { return a.Slot.Compare(b.Slot) })
	return list
}
