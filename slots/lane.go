package slots

import (
	"context"
	"database/sql"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

const (
	// pagesInFlight and bytesInFlight bound what a run keeps in memory.
	pagesInFlight = 4
	bytesInFlight = 64 << 20
	// readAtOnce bounds what one claim keeps of it.
	readAtOnce = 16 << 20
	// quick and slow are what checking a claim takes when the next one is to be larger, and smaller: whoever has nothing to
	// do should find something to claim, and a runner that dies should leave little.
	quick, slow = 250 * time.Millisecond, 2 * time.Second
)

// lane is jobs whose checks wait for the same things. One that is slow, or limited, holds up no other.
type lane struct {
	key    string
	jobs   []int64 // that may be claimed, those with few rows first; only the goroutine of run.do uses it
	whole  bool    // claims are as large as may be: its jobs take many rows at once
	own    bool    // it has a limit of its own, which also bounds what it keeps in memory
	plain  bool    // its checks wait for workers alone
	gates  []semaphore
	places int // how many of its checks run at once
	limit  *limit
	rests  time.Time // local monotonic instant before which there is no place for its checks

	size  atomic.Int64 // rows of the next claim
	fits  atomic.Int64 // rows that make readAtOnce bytes, by those that were read last
	queue atomic.Int64 // rows that were claimed and not started
	kept  atomic.Int64 // rows in memory
}

// slotJob is a job of the slot that is registered here, and selected.
type slotJob struct {
	def  *jobs.Definition
	lane *lane
}

// look sends a message, and finds with it the jobs of the slot, and which of them have rows to be claimed. Only while there are
// no claims.
func (r *run) look(ctx context.Context, m *pgsql.Message) error {
	m.Add(pgsql.SlotJobs.In(r.schema), []any{r.slot}, func(row *sql.Rows) error {
		var number, planned int64
		var name string
		var claimable bool
		if err := row.Scan(&number, &name, &planned, &claimable); err != nil {
			return err
		}
		def, registered := r.jobs[number]
		if !registered { // when the runner was made
			def, registered = r.cfg.Registry.Lookup(name)
		}
		switch {
		case !registered && claimable:
			r.note(name)
		case registered && (r.sel.job == "" || r.sel.job == def.Name):
			l := r.lane(number, def)
			r.known[number] = slotJob{def, l}
			if claimable && !slices.Contains(l.jobs, number) {
				l.jobs = append(l.jobs, number)
			}
		}
		return nil
	})
	return r.retry(ctx, passes, func() error {
		r.known = map[int64]slotJob{}
		for _, l := range r.lanes {
			l.jobs = nil
		}
		return r.commit(r.work, m)
	})
}

// lane returns the lane of a job.
func (r *run) lane(number int64, d *jobs.Definition) *lane {
	key := laneKey(d)
	if i := slices.IndexFunc(r.lanes, func(l *lane) bool { return l.key == key }); i >= 0 {
		return r.lanes[i]
	}
	l := &lane{key: key, whole: d.Batched(), own: d.Concurrency > 0 || d.Limited()}
	places := r.cfg.Workers
	if d.Concurrency > 0 {
		places = min(places, d.Concurrency)
		l.gates = append(l.gates, make(semaphore, d.Concurrency))
	}
	if d.InTx() {
		places = min(places, r.cfg.Connections)
		l.gates = append(l.gates, r.connections)
	}
	l.plain, l.places = len(l.gates) == 0 && !d.Limited(), places
	l.gates = append(l.gates, r.workers)
	if shared := r.cfg.Shared; shared.Connections != nil && d.InTx() {
		l.gates = append(l.gates, semaphore(shared.Connections))
	}
	if shared := r.cfg.Shared; shared.Workers != nil {
		l.gates = append(l.gates, semaphore(shared.Workers))
	}
	if d.Limited() {
		l.limit = newLimit(r, number, d, places)
		r.leases.watchOver(l.limit)
	}
	l.size.Store(int64(min(r.cfg.Page, 4*places)))
	if l.whole {
		l.size.Store(int64(r.cfg.Page))
	}
	r.lanes = append(r.lanes, l)
	return l
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

// next returns a lane that has rows to be claimed, and room for them, another one each time; nil when there is none. Those of a
// lower priority have their turn when the rows of a higher one are claimed, or cannot be for a bound that is not the workers'.
func (r *run) next() *lane {
	if r.limitReached() {
		return nil
	}
	if len(r.lanes) > 1 {
		r.lanes = append(r.lanes[1:], r.lanes[0])
	}
	top := math.MinInt
	for _, l := range r.lanes {
		if len(l.jobs) > 0 && (l.plain || r.hasRoom(l)) {
			top = max(top, r.priority(l))
		}
	}
	for _, l := range r.lanes {
		if len(l.jobs) > 0 && r.priority(l) == top && r.hasRoom(l) {
			return l
		}
	}
	return nil
}

// priority is that of the jobs of a lane which are claimed next.
func (r *run) priority(l *lane) int {
	most := math.MinInt
	for _, number := range l.jobs {
		most = max(most, r.known[number].def.Priority)
	}
	return most
}

// first divides the jobs of a lane into those that are claimed next, and those of lower priority.
func (r *run) first(l *lane) (first, rest []int64) {
	most := r.priority(l)
	for _, number := range l.jobs {
		if r.known[number].def.Priority == most {
			first = append(first, number)
		} else {
			rest = append(rest, number)
		}
	}
	return first, rest
}

// waits tells whether a lane has rows to be claimed for which there was no room in this run.
func (r *run) waits() bool {
	for _, l := range r.lanes {
		if len(l.jobs) > 0 && !r.limitReached() && !l.resting() {
			return true
		}
	}
	return false
}

// rests tells whether a lane has rows to be claimed for which others must make room.
func (r *run) rests() bool {
	for _, l := range r.lanes {
		if len(l.jobs) > 0 && l.resting() {
			return true
		}
	}
	return false
}

func (l *lane) resting() bool { return monotonic().Before(l.rests) }

// hasRoom tells whether a lane is about to run out of rows, and there is memory for more.
func (r *run) hasRoom(l *lane) bool {
	if l.queue.Load() > l.size.Load()/2 || r.bytes.Load() > bytesInFlight || l.resting() {
		return false
	}
	if l.own {
		return l.kept.Load() < pagesInFlight*l.size.Load()
	}
	return r.rows.Load() < pagesInFlight*int64(r.cfg.Page)
}

// want is how many rows to claim of a lane.
func (r *run) want(l *lane) int64 {
	n := l.size.Load()
	if fits := l.fits.Load(); fits > 0 {
		n = min(n, fits)
	}
	if r.sel.limit > 0 {
		n = min(n, r.sel.limit-r.taken.Load())
	}
	return n
}

// adapt changes the size of the claims by how long the checks of one took.
func (l *lane) adapt(took time.Duration, page int) {
	if l.whole {
		return
	}
	size := l.size.Load()
	switch {
	case took < quick:
		size = min(4*size, int64(page))
	case took > slow:
		size = max(size/2, 1)
	}
	l.size.Store(size)
}
