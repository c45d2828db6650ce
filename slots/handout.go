package slots

import (
	"slices"

	"github.com/prescient-go/prescient/jobs"
)

// handOut starts a check for each row of a page, or for each batch of them, and records at once what needs none.
func (s *scan) handOut(p page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages++
	batches := map[string]*flight{}
	complete := true
	for i := 0; complete && i < len(p.rows); i++ {
		complete = s.handOutRow(&p, i, batches)
	}
	for _, f := range batches {
		s.start(f)
	}
	for _, sh := range p.read {
		sh.busy = sh.busy || p.busy
		sh.filtered = sh.filtered || p.busy || len(s.grouped) > 0 || s.sel.job != ""
	}
	if !complete {
		return
	}
	for _, sh := range p.last {
		if !sh.groups && len(s.grouped) > 0 {
			sh.groups = true // the rows of groups come after the others
		} else {
			sh.passed = true
		}
	}
}

// handOutRow hands out a row of a page. It returns false when no more rows may be.
func (s *scan) handOutRow(p *page, i int, batches map[string]*flight) bool {
	job, sh := &p.rows[i], p.shards[i]
	if s.stopped || s.limitReached() {
		return false
	}
	if !s.isHeld(sh) {
		return true
	}
	if sh.groups {
		sh.afterGroup = job.Group()
	} else {
		sh.after = job.ID
		s.remember(sh, job.ID)
	}
	if of, again := s.flying[job.ID]; again {
		sh.left = sh.left || of != sh // from when this runner held the shard before: its outcome is nobody's
		return true
	}
	l := s.lane(job.JobExec)
	verdict, act := s.sel.judge(l.def, s.moment())
	if act == actLeave {
		return true
	}
	if act == actCheck && l.limited() && l.flying >= s.laneRoom(l) && batches[l.batch(job)] == nil {
		l.busy, sh.busy = true, true
		return true
	}
	s.takeOff(sh, l, job.ID)
	switch key := l.batch(job); {
	case act == actRecord:
		s.deliverOutcome(outcome{id: job.ID, page: s.pages, shard: sh, lane: l, verdict: new(verdict)})
	case key == "":
		rows := p.rows[i : i+1 : i+1] // where it lies: most rows are gone before the page
		if l.limited() {
			rows = slices.Clone(rows)
		}
		s.start(&flight{lane: l, rows: rows, shards: p.shards[i : i+1 : i+1], page: s.pages})
	case batches[key] == nil:
		batches[key] = &flight{lane: l, rows: []jobs.FutureJob{*job}, shards: []*shard{sh}, page: s.pages}
	default:
		b := batches[key]
		b.rows, b.shards = append(b.rows, *job), append(b.shards, sh)
	}
	return true
}

// remember keeps the ids that were read last: of those in flight, but for the rows of slow checks.
func (s *scan) remember(sh *shard, id int64) {
	if keep := pagesInFlight * s.cfg.Page; len(sh.ids) == 2*keep {
		sh.ids = append(sh.ids[:0], sh.ids[keep:]...)
	}
	sh.ids = append(sh.ids, id)
}

// batch returns what the rows of one call have in common; empty for a job that takes one row at a time.
func (l *lane) batch(job *jobs.FutureJob) string {
	switch {
	case l.def.Grouped():
		return l.name + "\x00" + job.Group()
	case l.def.Batched():
		return l.name
	}
	return ""
}

// takeOff and land keep count of the rows in flight. Call them with mu held, and notify after the last that landed.
func (s *scan) takeOff(sh *shard, l *lane, id int64) {
	s.flying[id] = sh
	s.taken++
	s.out++
	sh.flying++
	l.flying++
	if !l.limited() {
		s.free++
	}
}

func (s *scan) land(sh *shard, l *lane, id int64) {
	delete(s.flying, id)
	sh.flying--
	l.flying--
	if !l.limited() {
		s.free--
	} else if l.busy && l.flying <= s.laneRoom(l)/2 {
		l.busy = false
		s.cleared++
	}
}

// laneRoom is how many rows of a job with limited concurrency are in flight at the most.
func (s *scan) laneRoom(l *lane) int { return 4*l.def.Concurrency + s.cfg.Page }

// lane returns the lane of a job; the jobs of a group family share one.
func (s *scan) lane(job string) *lane {
	if l, ok := s.lanes[job]; ok {
		return l
	}
	def := s.cfg.Registry.Lookup(job)
	l := &lane{name: job, def: def, jobs: []string{job}}
	if def.Grouped() {
		l.name, l.jobs = "group "+def.Group, s.cfg.Registry.Family(def.Group)
	}
	if l.limited() {
		l.gates = append(l.gates, s.gate(def.Concurrency))
	}
	if def.InTx() {
		l.gates = append(l.gates, s.connections)
	}
	l.gates = append(l.gates, s.workers)
	for _, name := range l.jobs {
		s.lanes[name] = l
	}
	return l
}

// moment is now, for judging a row.
func (s *scan) moment() jobs.Moment {
	return jobs.Moment{Grid: s.Grid(), Slot: s.ledger.slot, Now: s.Now(), CaughtUp: s.result.Kind == KindCatchUp}
}
