package slots

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// claim takes shards: a slot of a page whole, of any other one at a time, so that the runner that is idle takes more.
// With rows in flight up to their bound, and once the limit is reached, it takes none.
func (s *scan) claim() (bool, error) {
	whole := s.result.Planned <= int64(s.cfg.Page)
	if !s.hasRoom() || whole && s.holds() {
		return false, nil
	}
	limit := 1
	if whole {
		limit = allShards
	}
	if s.cfg.ClaimDelay > 0 && !s.pause(time.Duration(s.cfg.Load()*float64(s.cfg.ClaimDelay))) {
		return false, nil
	}
	asked := monotonic() // before the statement: the lease cannot end earlier than counted from here
	var claims []claim
	err := s.retry(func() (err error) {
		claims, err = s.ledger.claim(s.work, limit)
		return err
	})
	if err != nil || len(claims) == 0 {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range claims {
		sh := &shard{claim: c, until: asked.Add(s.cfg.Lease)}
		sh.ctx, sh.cancel = context.WithCancelCause(s.checks)
		s.shards[c.shard] = sh
		if c.expired {
			s.result.TakenOver++
		}
	}
	return true, nil
}

// pause waits before a claim, for maxDelay at the most. It returns false when the run is stopped meanwhile.
func (s *scan) pause(delay time.Duration) bool {
	timer := time.NewTimer(min(delay, maxDelay))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.stop.Done():
		return false
	}
}

// hasRoom tells whether more rows may be handed out.
func (s *scan) hasRoom() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hasRoomLocked()
}

func (s *scan) hasRoomLocked() bool {
	return s.free < pagesInFlight*s.cfg.Page && !s.limitReached()
}

// limitReached tells whether the run has taken as many rows as it may. Call it with mu held.
func (s *scan) limitReached() bool { return s.sel.limit > 0 && s.taken >= s.sel.limit }

// holds tells whether shards of this runner are not done.
func (s *scan) holds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sh := range s.shards {
		if !sh.resting {
			return true
		}
	}
	return false
}

// rests tells whether rows are left on purpose.
func (s *scan) rests() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.shards) > 0 || s.limitReached()
}

// mayRead begins further passes where they are due, and tells whether there is something to read.
func (s *scan) mayRead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sh := range s.shards {
		if sh.passed && sh.busy && s.cleared > sh.cleared {
			s.beginPass(sh)
		}
	}
	return s.hasRoomLocked() && len(s.unread()) > 0
}

// beginPass reads a shard again from its beginning.
func (s *scan) beginPass(sh *shard) {
	sh.after, sh.afterGroup, sh.groups = 0, "", false
	sh.ids, sh.filtered = nil, false
	sh.passed, sh.busy, sh.left, sh.cleared = false, false, false, s.cleared
}

// unread returns the shards whose pass has not ended, in order.
func (s *scan) unread() []*shard {
	var list []*shard
	for _, number := range slices.Sorted(maps.Keys(s.shards)) {
		if sh := s.shards[number]; !sh.passed && !sh.resting {
			list = append(list, sh)
		}
	}
	return list
}

// read reads a page, of one shard or of several small ones in one transaction, and hands out its rows.
func (s *scan) read() (bool, error) {
	s.mu.Lock()
	shards := s.unread()
	turnedAway := []string{} // a nil slice would be null, and match nothing
	for _, l := range s.lanes {
		if l.busy {
			turnedAway = append(turnedAway, l.jobs...)
		}
	}
	s.mu.Unlock()

	var pages []page
	err := s.retry(func() error {
		return pgsql.InTx(s.work, s.cfg.DB, func(tx *sqlx.Tx) (err error) {
			if _, err := tx.ExecContext(s.work, pgsql.SlotIndexOnly); err != nil {
				return err
			}
			pages, err = s.readPages(tx, shards, turnedAway)
			return err
		})
	})
	if err != nil {
		return false, err
	}
	for _, p := range pages {
		p.busy = len(turnedAway) > 0
		s.handOut(p)
	}
	return false, nil
}

// page is rows of one shard, and where the next one begins.
type page struct {
	shard *shard
	rows  []jobs.FutureJob
	last  bool // the pass ends with it
	busy  bool // rows of busy lanes were left out
}

func (s *scan) readPages(tx *sqlx.Tx, shards []*shard, turnedAway []string) ([]page, error) {
	var pages []page
	room := s.cfg.Page
	for _, sh := range shards {
		p := page{shard: sh}
		var err error
		if sh.groups {
			p.rows, p.last, err = s.readGroups(tx, sh, turnedAway, room)
		} else {
			p.rows, err = s.readRows(tx, sh, turnedAway, room)
			p.last = len(p.rows) < room
		}
		if err != nil {
			return nil, err
		}
		pages = append(pages, p)
		if room -= len(p.rows); room <= 0 {
			break
		}
	}
	return pages, nil
}

// readRows reads rows in the order of their ids, but not those of groups.
func (s *scan) readRows(tx *sqlx.Tx, sh *shard, turnedAway []string, limit int) ([]jobs.FutureJob, error) {
	not := append(turnedAway, s.grouped...)
	args := []any{s.ledger.slot, sh.shard, sh.after, limit, pq.Array(not), nullable(s.sel.job)}
	rows := make([]jobs.FutureJob, 0, min(int64(limit), s.result.Planned))
	return pgsql.Append(s.work, tx, rows, pgsql.PageRead.In(s.schema), args, jobs.ScanDue(s.ledger.slot))
}

// readGroups reads whole groups in their order: a full page is completed to the end of its last group.
func (s *scan) readGroups(tx *sqlx.Tx, sh *shard, turnedAway []string, limit int) (rows []jobs.FutureJob, last bool, err error) {
	only := slices.DeleteFunc(slices.Clone(s.grouped), func(job string) bool {
		return slices.Contains(turnedAway, job) || s.sel.job != "" && s.sel.job != job
	})
	args := []any{s.ledger.slot, sh.shard, pq.Array(only), sh.afterGroup, limit}
	rows, err = pgsql.Collect(s.work, tx, pgsql.PageReadGroups.In(s.schema), args, jobs.ScanDue(s.ledger.slot))
	if err != nil || len(rows) < limit {
		return rows, true, err
	}
	group := rows[len(rows)-1].Group()
	whole := slices.IndexFunc(rows, func(row jobs.FutureJob) bool { return row.Group() == group })
	args = []any{s.ledger.slot, sh.shard, pq.Array(only), group}
	rest, err := pgsql.Collect(s.work, tx, pgsql.PageReadGroup.In(s.schema), args, jobs.ScanDue(s.ledger.slot))
	return append(rows[:whole], rest...), false, err
}

func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// handOut starts a check for each row of a page, or for each batch of them, and records at once what needs none.
func (s *scan) handOut(p page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	batches := map[string]*flight{}
	complete := true
	for i := range p.rows {
		if complete = s.handOutRow(p.shard, p.rows[i:], batches); !complete {
			break
		}
	}
	for _, f := range batches {
		s.start(f)
	}
	p.shard.busy = p.shard.busy || p.busy
	p.shard.filtered = p.shard.filtered || p.busy || len(s.grouped) > 0 || s.sel.job != ""
	switch {
	case !complete || !p.last:
	case !p.shard.groups && len(s.grouped) > 0:
		p.shard.groups = true // the rows of groups come after the others
	default:
		p.shard.passed = true
	}
}

// handOutRow hands out the first row of what is left of a page. It returns false when no more rows may be.
func (s *scan) handOutRow(sh *shard, page []jobs.FutureJob, batches map[string]*flight) bool {
	job := &page[0]
	if s.stopped || s.shards[sh.shard] != sh {
		return false
	}
	if s.limitReached() {
		sh.passed = true
		return false
	}
	if sh.groups {
		sh.afterGroup = job.Group()
	} else {
		sh.after = job.ID
		sh.ids = append(sh.ids, job.ID)
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
		s.deliverOutcome(sh, outcome{id: job.ID, lane: l, verdict: new(verdict)})
	case key == "":
		rows := page[:1:1] // where it lies: most rows are gone before the page
		if l.limited() {
			rows = slices.Clone(rows)
		}
		s.start(&flight{shard: sh, lane: l, rows: rows})
	case batches[key] == nil:
		batches[key] = &flight{shard: sh, lane: l, rows: []jobs.FutureJob{*job}}
	default:
		batches[key].rows = append(batches[key].rows, *job)
	}
	return true
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

// mayClose tells whether shards have been read to the end and all their rows recorded.
func (s *scan) mayClose() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closing && len(s.closable()) > 0
}

func (s *scan) closable() []claim {
	limited := s.limitReached()
	var list []claim
	for _, sh := range s.shards {
		if (sh.passed || limited) && (!sh.busy || limited) && sh.flying == 0 && !sh.resting {
			c := sh.claim
			if c.settled && !sh.left && !limited && !s.sel.partial && len(s.grouped) == 0 {
				c.gone = sh.after // all rows up to here were read, and recorded; others come after them, if any
			}
			list = append(list, c)
		}
	}
	return list
}

// close closes shards beside the reader, which goes on with others: looking for late rows takes a while, since the
// index still has entries of all that were there.
func (s *scan) close() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	claims := s.closable()
	for _, c := range claims {
		s.shards[c.shard].closing = true
	}
	s.closing = true
	s.beside.Go(func() {
		if err := s.closeShards(claims); err != nil {
			s.fail(err)
		}
	})
	return false, nil
}

// closeShards closes shards. One that has rows still is read again from its beginning, for they were committed late;
// where rows are left on purpose it rests until the run ends.
func (s *scan) closeShards(claims []claim) error {
	var closed []int16
	var done bool
	err := s.retry(func() (err error) {
		closed, done, err = s.ledger.close(s.work, claims)
		return err
	})
	if len(closed) == 0 && !s.sel.partial {
		time.Sleep(5 * linger) // a row that somebody else has locked, or one that was committed late
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = false
	s.done = s.done || done
	for _, number := range closed {
		if sh, ok := s.shards[number]; ok {
			sh.cancel(nil)
			delete(s.shards, number)
		}
	}
	for _, c := range claims {
		sh, open := s.shards[c.shard]
		if !open || sh.token != c.token {
			continue
		}
		sh.closing = false
		if s.sel.partial {
			sh.resting = true
		} else {
			s.beginPass(sh)
		}
	}
	s.notify()
	return err
}
