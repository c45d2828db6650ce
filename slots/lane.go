package slots

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/call"
	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/permit"
	"github.com/prescient-go/prescient/slots/internal/session"
	"github.com/prescient-go/prescient/slots/internal/turn"
)

// lane is a set of jobs whose checks wait for the same things. Package turn chooses among the lanes of a run.
type lane struct {
	key    string
	turn   *turn.Lane // only the goroutine of run.do uses it
	spec   turn.Spec
	gates  []permit.Semaphore
	limit  *permit.Limit    // nil: none
	job    *jobs.Definition // the job of the limit
	load   load
	stop   context.Context // of the run
	panics *call.Panics
}

// adapt changes the size of the claims by how long the checks of one took.
func (l *lane) adapt(took time.Duration, page int) {
	size := &l.load.size
	size.Store(l.spec.NextSize(size.Load(), took, page))
}

// lanes are the jobs of the slot that are known here, by what their checks wait for. Only the
// goroutine of run.do changes them, while there are no claims.
type lanes struct {
	cfg    *Config
	stop   context.Context
	panics *call.Panics
	// newLimit returns the limit of a job. places are the checks of the job that this run can do at once.
	newLimit func(number int64, d *jobs.Definition, places int) *permit.Limit

	workers     permit.Semaphore // concurrent checks
	connections permit.Semaphore // concurrent checks with a transaction

	byJob  map[int64]*lane
	list   []*lane
	order  *turn.Order // in which lanes have their turn
	memory memory      // rows in memory, except rows that wait for a lock of another transaction
}

// clear forgets which jobs are in the slot.
func (s *lanes) clear() {
	s.byJob = map[int64]*lane{}
	s.order.Clear()
}

// add adds a job of the slot.
func (s *lanes) add(j session.Job, d *jobs.Definition) {
	l := s.lane(j.Number, d)
	s.byJob[j.Number] = l
	if j.Claimable {
		l.turn.Offer(turn.Job{Number: j.Number, Priority: d.Priority})
	}
}

// of returns the lane of a job.
func (s *lanes) of(number int64) *lane { return s.byJob[number] }

// numbers returns the jobs.
func (s *lanes) numbers() []int64 { return slices.Collect(maps.Keys(s.byJob)) }

// lane returns the lane of a job, which it makes for the first one.
func (s *lanes) lane(number int64, d *jobs.Definition) *lane {
	key := laneKey(d)
	if i := slices.IndexFunc(s.list, func(l *lane) bool { return l.key == key }); i >= 0 {
		return s.list[i]
	}
	l := &lane{key: key, job: d, stop: s.stop, panics: s.panics, spec: s.spec(d), gates: s.gates(d)}
	if d.Limited() {
		l.limit = s.newLimit(number, d, l.spec.Places)
	}
	l.load.size.Store(l.spec.FirstSize(s.cfg.Page))
	l.turn = s.order.Add(l.spec)
	s.list = append(s.list, l)
	return l
}

func (s *lanes) spec(d *jobs.Definition) turn.Spec {
	spec := turn.Spec{
		Whole: d.Batched(), Own: d.Concurrency > 0 || d.Limited(), Places: s.cfg.Workers, Needs: turn.Workers,
		Scarce: s.scarce(d),
	}
	if d.Concurrency > 0 {
		spec.Places = min(spec.Places, d.Concurrency)
	}
	if d.InTx() {
		spec.Places = min(spec.Places, s.cfg.Connections)
		spec.Needs |= turn.Connections
	}
	return spec
}

// gates returns what the checks of a job wait for, in this order.
func (s *lanes) gates(d *jobs.Definition) (gates []permit.Semaphore) {
	if d.Concurrency > 0 {
		gates = append(gates, make(permit.Semaphore, d.Concurrency))
	}
	if d.InTx() {
		gates = append(gates, s.connections)
	}
	gates = append(gates, s.workers)
	shared := s.cfg.Shared
	if shared.Connections != nil && d.InTx() {
		gates = append(gates, permit.Semaphore(shared.Connections))
	}
	if shared.Workers != nil {
		gates = append(gates, permit.Semaphore(shared.Workers))
	}
	return gates
}

// scarce returns the shared bounds that the checks of a job reach first: none if the job's own limit is tighter.
func (s *lanes) scarce(d *jobs.Definition) (scarce turn.Bound) {
	if d.Limited() {
		return 0
	}
	shared := s.cfg.Shared
	workers, connections := s.cfg.Workers, math.MaxInt
	if shared.Workers != nil {
		workers = min(workers, cap(shared.Workers))
	}
	if d.InTx() {
		connections = s.cfg.Connections
		if shared.Connections != nil {
			connections = min(connections, cap(shared.Connections))
		}
	}
	least := min(workers, connections)
	if d.Concurrency > 0 {
		least = min(least, d.Concurrency)
	}
	if workers == least {
		scarce |= turn.Workers
	}
	if connections == least {
		scarce |= turn.Connections
	}
	return scarce
}

func laneKey(d *jobs.Definition) string {
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

// turns returns the order of the lanes, with the current load of each.
func (s *lanes) turns() *turn.Order {
	s.order.Memory = s.memory.now()
	for _, l := range s.list {
		l.turn.Load = l.load.now()
	}
	return s.order
}

// next returns the lane whose rows to claim next, or nil.
func (s *lanes) next() *lane {
	chosen := s.turns().Next(elapsed.Now())
	if i := slices.IndexFunc(s.list, func(l *lane) bool { return l.turn == chosen }); i >= 0 {
		return s.list[i]
	}
	return nil
}

// want returns how many rows of a lane to claim.
func (s *lanes) want(l *lane) int64 { return s.turns().Want(l.turn) }

// waits reports whether a lane has rows to claim for which there was no room.
func (s *lanes) waits() bool { return s.turns().Waits(elapsed.Now()) }

// rests reports whether a lane has rows to claim for which other runners must make room.
func (s *lanes) rests() bool { return s.turns().Rests(elapsed.Now()) }

// isLimitReached reports whether the run has taken as many rows as it may.
func (s *lanes) isLimitReached() bool { return s.turns().Reached() }

// account returns the account of a claim whose rows count to a lane. changed wakes the run.
func (s *lanes) account(l *lane, changed func()) *account {
	return &account{load: &l.load, own: l.spec.Own, memory: &s.memory, changed: changed}
}
