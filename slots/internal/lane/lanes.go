// Package lane chooses the job whose rows a run claims next, and how many of them. It counts the
// rows that runs have in memory, and divides claimed rows by the limits that their checks wait for.
package lane

import (
	"maps"
	"slices"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/permit"
	"github.com/prescient-go/prescient/slots/internal/phase"
	"github.com/prescient-go/prescient/slots/internal/unit"
)

// Options of the Lanes of a run.
type Options struct {
	*phase.Contexts
	Panics *unit.Panics

	Page   int     // rows of a claim at most
	Most   int64   // rows that the run may take; 0: no limit
	Bounds *Bounds // shared with the other runs of a catch-up
	// NewLimit returns the limit of a job. atOnce is how many checks of the job this run can do at once.
	NewLimit func(number int64, d *jobs.Definition, atOnce int) *permit.Limit
}

// Lanes divides the jobs of the slot that are known here by what their checks wait for. Only the goroutine that claims
// changes them, while there are no claims.
type Lanes struct {
	Options
	order

	byJob map[int64]*Lane
}

// New returns Lanes without jobs.
func New(o Options) *Lanes {
	return &Lanes{
		Options: o, order: order{memory: &o.Bounds.memory, page: int64(o.Page), most: o.Most}, byJob: map[int64]*Lane{},
	}
}

// Clear forgets which jobs are in the slot.
func (s *Lanes) Clear() {
	s.byJob = map[int64]*Lane{}
	s.forget()
}

// Add adds a job of the slot. claimable reports whether it has rows to claim.
func (s *Lanes) Add(number int64, d *jobs.Definition, claimable bool) {
	l := s.lane(number, d)
	s.byJob[number] = l
	if claimable {
		l.offer(offered{number, d.Priority})
	}
}

// Of returns the lane of a job.
func (s *Lanes) Of(number int64) *Lane { return s.byJob[number] }

// Numbers returns the jobs.
func (s *Lanes) Numbers() []int64 { return slices.Collect(maps.Keys(s.byJob)) }

// lane returns the lane of a job, which it makes for the first one.
func (s *Lanes) lane(number int64, d *jobs.Definition) *Lane {
	key := keyOf(d)
	if i := slices.IndexFunc(s.list, func(l *Lane) bool { return l.key == key }); i >= 0 {
		return s.list[i]
	}
	l := &Lane{lanes: s, key: key, Job: d, Spec: s.Bounds.spec(d), semaphores: s.Bounds.semaphores(d)}
	if d.Limited() {
		l.Limit = s.NewLimit(number, d, l.AtOnce)
	}
	l.load.size.Store(l.firstSize(s.Page))
	s.add(l)
	return l
}

// keyOf returns what the jobs of a lane have in common with a job.
func keyOf(d *jobs.Definition) string {
	switch {
	case d.Grouped():
		return "group " + d.Group
	case d.Concurrency > 0 || d.Limited():
		return "job " + d.Name
	case d.Batched() && d.InTx():
		return "batches with a transaction"
	case d.Batched():
		return "batches"
	case d.InTx():
		return "with a transaction"
	}
	return ""
}
