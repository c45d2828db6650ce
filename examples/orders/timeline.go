package main

import (
	"maps"
	"slices"
	"time"

	"github.com/prescient-go/prescient/slots/grid"
)

// step holds the events after the previous slot, up to and including a slot.
type step struct {
	slot    time.Time
	placed  []order
	shipped []order // orders that were placed at earlier slots
}

// timeline yields the events in the order of slots. A shipment that is dated before its order
// becomes known with the order.
func timeline(g grid.Grid, orders []order) []step {
	steps := map[time.Time]*step{}
	at := func(slot time.Time) *step {
		if steps[slot] == nil {
			steps[slot] = &step{slot: slot}
		}
		return steps[slot]
	}
	for _, o := range orders {
		placed := at(g.Ceil(o.placedAt))
		if o.shippedAt.Valid && o.shippedAt.Time.After(placed.slot) {
			shipped := at(g.Ceil(o.shippedAt.Time))
			shipped.shipped = append(shipped.shipped, o)
			o.shippedAt.Valid = false
		}
		placed.placed = append(placed.placed, o)
	}
	list := make([]step, 0, len(steps))
	for _, slot := range slices.SortedFunc(maps.Keys(steps), time.Time.Compare) {
		list = append(list, *steps[slot])
	}
	return list
}
