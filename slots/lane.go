package slots

import (
	"log/slog"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prescient-go/prescient/internal/engine"
	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/permit"
	"github.com/prescient-go/prescient/slots/internal/session"
	"github.com/prescient-go/prescient/slots/internal/turn"
)

// readAtOnce bounds what one claim keeps in memory, in bytes.
const readAtOnce = 16 << 20

// lane is a set of jobs whose checks wait for the same things. Package turn chooses among the lanes of a run.
type lane struct {
	key   string
	turn  *turn.Lane // only the goroutine of run.do uses it
	spec  turn.Spec
	gates []permit.Semaphore
	limit *permit.Limit      // nil: none
	job   *engine.Definition // the job of the limit
	load  load
}

// load is turn.Load, counted by the goroutines of a run.
type load struct {
	size, fits, queued, kept, parked atomic.Int64
}

func (l *load) now() turn.Load {
	return turn.Load{Size: l.size.Load(), Fits: l.fits.Load(), Queued: l.queued.Load(), Kept: l.kept.Load(), Parked: l.parked.Load()}
}

// memory is turn.Memory, counted by the goroutines of a run.
type memory struct {
	rows, bytes, held, taken atomic.Int64
}

func (m *memory) now() turn.Memory {
	return turn.Memory{Rows: m.rows.Load(), Bytes: m.bytes.Load(), Held: m.held.Load(), Taken: m.taken.Load()}
}

// slotJob is a job of the slot that is registered here, and selected.
type slotJob struct {
	def  *engine.Definition
	lane *lane
}

// look finds the jobs of the slot that have rows to claim. It may only be called while there are no claims.
func (r *run) look() error {
	list, err := r.session.Jobs(r.work, r.work)
	if err == nil {
		r.know(list)
	}
	return err
}

// know sets the jobs of the slot. It may only be called while there are no claims.
func (r *run) know(list []session.Job) {
	r.known, r.records.Jobs = map[int64]slotJob{}, map[int64]*engine.Definition{}
	r.order.Clear()
	for _, j := range list {
		def, registered := r.jobs[j.Number]
		if !registered { // when the runner was made
			def, registered = engine.Lookup(r.cfg.Registry, j.Name)
		}
		switch {
		case !registered && j.Claimable:
			r.report.note(j.Name)
		case registered && (r.sel.job == "" || r.sel.job == def.Name):
			l := r.lane(j.Number, def)
			r.known[j.Number], r.records.Jobs[j.Number] = slotJob{def, l}, def
			if j.Claimable {
				l.turn.Offer(turn.Job{Number: j.Number, Priority: def.Priority})
			}
		}
	}
}

// lane returns the lane of a job.
func (r *run) lane(number int64, d *engine.Definition) *lane {
	key := laneKey(d)
	if i := slices.IndexFunc(r.lanes, func(l *lane) bool { return l.key == key }); i >= 0 {
		return r.lanes[i]
	}
	l := &lane{key: key, job: d}
	places := r.cfg.Workers
	if d.Concurrency > 0 {
		places = min(places, d.Concurrency)
		l.gates = append(l.gates, make(permit.Semaphore, d.Concurrency))
	}
	if d.InTx() {
		places = min(places, r.cfg.Connections)
		l.gates = append(l.gates, r.connections)
	}
	l.spec = turn.Spec{
		Whole: d.Batched(), Own: d.Concurrency > 0 || d.Limited(), Places: places, Needs: turn.Workers, Scarce: r.scarce(d),
	}
	if d.InTx() {
		l.spec.Needs |= turn.Connections
	}
	l.gates = append(l.gates, r.workers)
	if shared := r.cfg.Shared; shared.Connections != nil && d.InTx() {
		l.gates = append(l.gates, permit.Semaphore(shared.Connections))
	}
	if shared := r.cfg.Shared; shared.Workers != nil {
		l.gates = append(l.gates, permit.Semaphore(shared.Workers))
	}
	if d.Limited() {
		l.limit = permit.NewLimit(
			permit.Run{Server: &r.server, Token: r.session.Token, Stop: r.stop, Halt: r.halt, Work: r.work, Tried: func(lock string, got bool) {
				if got {
					r.report.places.got(lock)
				} else {
					r.report.places.wait(r, lock, slog.String("permits_of", d.Name))
				}
			}},
			permit.Rule{Job: number, Name: d.Name, AtMost: d.AtMost, PerSecond: d.PerSecond, Places: places})
		r.leases.Join(l.limit)
	}
	l.load.size.Store(l.spec.FirstSize(r.cfg.Page))
	l.turn = r.order.Add(l.spec)
	r.lanes = append(r.lanes, l)
	return l
}

// scarce returns the shared bounds that the checks of a job reach first: none if the job's own limit is tighter.
func (r *run) scarce(d *engine.Definition) (scarce turn.Bound) {
	if d.Limited() {
		return 0
	}
	workers, connections := r.cfg.Workers, math.MaxInt
	if shared := r.cfg.Shared.Workers; shared != nil {
		workers = min(workers, cap(shared))
	}
	if d.InTx() {
		connections = r.cfg.Connections
		if shared := r.cfg.Shared.Connections; shared != nil {
			connections = min(connections, cap(shared))
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

func laneKey(d *engine.Definition) string {
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
func (r *run) turns() *turn.Order {
	r.order.Memory = r.memory.now()
	for _, l := range r.lanes {
		l.turn.Load = l.load.now()
	}
	return r.order
}

// next returns the lane whose rows to claim next; nil if there is none.
func (r *run) next() *lane {
	chosen := r.turns().Next(elapsed.Now())
	if i := slices.IndexFunc(r.lanes, func(l *lane) bool { return l.turn == chosen }); i >= 0 {
		return r.lanes[i]
	}
	return nil
}

func (r *run) waits() bool { return r.turns().Waits(elapsed.Now()) }

func (r *run) rests() bool { return r.turns().Rests(elapsed.Now()) }

// limitReached reports whether the run has taken as many rows as it may.
func (r *run) limitReached() bool { return r.turns().Reached() }

// adapt changes the size of the claims by how long the checks of one took.
func (l *lane) adapt(took time.Duration, page int) {
	l.load.size.Store(l.spec.NextSize(l.load.size.Load(), took, page))
}
