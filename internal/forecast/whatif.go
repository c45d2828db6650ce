package forecast

import (
	"fmt"
	"time"

	"github.com/prescient-go/prescient/slots/grid"
)

// WhatIf changes what the coming slots are run with. The zero value changes nothing.
type WhatIf struct {
	Runners int           // 0 to 1,000,000; 0: unchanged
	Workers int           // of each runner, 0 to 1,000,000; 0: unchanged
	Width   time.Duration // of the slots; 0: unchanged
}

const mostAtOnce = 1_000_000

// Validate returns an error if a number is out of range.
func (w WhatIf) Validate() error {
	for name, n := range map[string]int{"runners": w.Runners, "workers": w.Workers} {
		if n < 0 || n > mostAtOnce {
			return fmt.Errorf("%s is %d: want a whole number up to %d", name, n, mostAtOnce)
		}
	}
	return nil
}

// capacity returns the capacity of the coming slots, from that of the past.
func (w WhatIf) capacity(was capacity) capacity {
	if w.Runners > 0 {
		was.runners = float64(w.Runners)
	}
	if w.Workers > 0 {
		was.workers = float64(w.Workers)
	}
	return was
}

// regrid moves the rows of slots onto a grid of another width. Rows that were asked for at the
// instant of a slot go into the first slot after it. The others came from the instants since the
// slot before, and are spread over the slots between. exact returns which part of a job's rows are
// the former.
func regrid(list []Slot, was, to grid.Grid, exact func(job string) float64) []Slot {
	if was == to || len(list) == 0 {
		return list
	}
	loads := map[int64]map[string]load{}
	add := func(slot time.Time, j Job, part float64) {
		at := to.Ceil(slot).Unix()
		if loads[at] == nil {
			loads[at] = map[string]load{}
		}
		l := loads[at][j.JobExec]
		l.waiting += part * float64(j.Waiting)
		l.expected += part * float64(j.Expected)
		l.paused, l.unserved = j.Paused, j.Unserved
		loads[at][j.JobExec] = l
	}
	for _, s := range list {
		for _, j := range s.Jobs {
			at := exact(j.JobExec)
			add(s.Slot, j, at)
			begin := s.Slot.Add(-was.Width())
			for from := begin; from.Before(s.Slot); {
				end := to.Next(from)
				if end.After(s.Slot) {
					end = s.Slot
				}
				add(end, j, (1-at)*end.Sub(from).Seconds()/was.Width().Seconds())
				from = end
			}
		}
	}
	first, last := to.Next(list[0].Slot.Add(-was.Width())), to.Ceil(list[len(list)-1].Slot)
	var slots []Slot
	for slot := range to.Between(first, last.Add(1)) {
		slots = append(slots, Slot{Slot: slot, Jobs: jobsOf(loads[slot.Unix()])})
	}
	return slots
}
