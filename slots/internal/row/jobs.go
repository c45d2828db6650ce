package row

import (
	"sync/atomic"

	"github.com/prescient-go/prescient/jobs"
)

// Jobs are the jobs of a slot that a run can check, by number. The parts of a run share them. Jobs are safe for
// concurrent use. The zero value has none.
type Jobs struct {
	known  atomic.Pointer[map[int64]*jobs.Definition]
	missed atomic.Pointer[map[string]bool]
}

// Set replaces the jobs. missed has the names of those that were paused when a run closed or left the slot. Call Set
// while there are no claims, because the rows of a claim have its jobs.
func (j *Jobs) Set(known map[int64]*jobs.Definition, missed map[string]bool) {
	j.known.Store(&known)
	j.missed.Store(&missed)
}

// Missed has the names of the jobs that were paused when a run closed or left the slot. Do not change the map.
func (j *Jobs) Missed() map[string]bool {
	if missed := j.missed.Load(); missed != nil {
		return *missed
	}
	return nil
}

// All returns the jobs by number. Do not change the map.
func (j *Jobs) All() map[int64]*jobs.Definition {
	if known := j.known.Load(); known != nil {
		return *known
	}
	return nil
}

// Of returns a job that the run can check.
func (j *Jobs) Of(number int64) *jobs.Definition { return j.All()[number] }

// Name returns the name of a job that the run can check.
func (j *Jobs) Name(number int64) string { return j.Of(number).Name }

// Names returns the names of jobs that the run can check.
func (j *Jobs) Names(numbers []int64) (names []string) {
	for _, number := range numbers {
		names = append(names, j.Name(number))
	}
	return names
}
