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
	if !s.hasRoom() || whole && s.holds() || time.Since(s.gave) < askEvery {
		return false, nil
	}
	limit := allShards
	if s.cfg.ClaimDelay > 0 && !whole {
		limit = 1
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
	settled := false
	if !whole && !claims[0].settled {
		if settled, err = s.awaitSettled(); err != nil {
			return false, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range claims {
		c.settled = c.settled || settled
		sh := &shard{claim: c, until: asked.Add(s.cfg.Lease)}
		sh.ctx, sh.cancel = context.WithCancelCause(s.checks)
		s.shards[c.shard] = sh
		if c.expired {
			s.result.TakenOver++
		}
	}
	return true, nil
}

// awaitSettled waits a moment for the transactions that began before the slot was opened: most of them are short, and where
// one goes on, the whole slot is to be looked through for what it may bring.
func (s *scan) awaitSettled() (settled bool, err error) {
	for range settleTries {
		if !s.pause(settleEvery) {
			return false, nil
		}
		err := s.retry(func() (err error) {
			settled, err = s.ledger.settled(s.work)
			return err
		})
		if err != nil || settled {
			return settled, err
		}
	}
	return false, nil
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

// unread returns the shards whose pass has not ended and that are to be read, in order.
func (s *scan) unread() []*shard {
	var list []*shard
	for _, number := range slices.Sorted(maps.Keys(s.shards)) {
		if sh := s.shards[number]; !sh.passed && !sh.resting && !sh.leaving {
			list = append(list, sh)
		}
	}
	return list
}

// read reads a page, of all shards that are not read to their end, and hands out its rows.
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

	var p page
	err := s.retry(func() error {
		return pgsql.InTx(s.work, s.cfg.DB, func(tx *sqlx.Tx) (err error) {
			if _, err := tx.ExecContext(s.work, pgsql.SlotIndexOnly); err != nil {
				return err
			}
			p, err = s.readPage(tx, shards, turnedAway)
			return err
		})
	})
	if err != nil {
		return false, err
	}
	s.handOut(p)
	return false, nil
}

// page is rows of several shards.
type page struct {
	rows   []jobs.FutureJob
	shards []*shard // of each row
	read   []*shard // that it was read from
	last   []*shard // of them those whose pass ends with it, or the rows of which come by group from now on
	busy   bool     // rows of busy lanes were left out
}

// readPage reads rows of all shards at once, and then those of groups.
func (s *scan) readPage(tx *sqlx.Tx, shards []*shard, turnedAway []string) (page, error) {
	p := page{busy: len(turnedAway) > 0}
	var plain, grouped []*shard
	for _, sh := range shards {
		if sh.groups {
			grouped = append(grouped, sh)
		} else {
			plain = append(plain, sh)
		}
	}
	if err := s.readRows(tx, &p, plain, turnedAway); err != nil {
		return p, err
	}
	for _, sh := range grouped {
		room := s.cfg.Page - len(p.rows)
		if room <= 0 {
			break
		}
		if err := s.readGroups(tx, &p, sh, turnedAway, room); err != nil {
			return p, err
		}
	}
	return p, nil
}

// readRows reads rows in the order of their ids, but not those of groups.
func (s *scan) readRows(tx *sqlx.Tx, p *page, shards []*shard, turnedAway []string) error {
	if len(shards) == 0 {
		return nil
	}
	limit := max(1, s.cfg.Page/len(shards))
	byNumber := map[int16]*shard{}
	var numbers, after pq.Int64Array
	for _, sh := range shards {
		byNumber[sh.shard] = sh
		numbers, after = append(numbers, int64(sh.shard)), append(after, sh.after)
	}
	not := append(turnedAway, s.grouped...)
	args := []any{s.ledger.slot, numbers, after, limit, pq.Array(not), nullable(s.sel.job)}
	size := min(int64(limit*len(shards)), s.result.Planned)
	rows, of := make([]jobs.FutureJob, 0, size), make([]int16, 0, size)
	rows, err := pgsql.Append(s.work, tx, rows, pgsql.PageRead.In(s.schema), args, jobs.ScanDue(s.ledger.slot, &of))
	if err != nil {
		return err
	}
	counts := map[*shard]int{}
	p.rows, p.shards = rows, make([]*shard, len(rows))
	for i, number := range of {
		p.shards[i] = byNumber[number]
		counts[p.shards[i]]++
	}
	p.read = shards
	for _, sh := range shards {
		if counts[sh] < limit {
			p.last = append(p.last, sh)
		}
	}
	return nil
}

// readGroups reads whole groups of a shard in their order: a full page is completed to the end of its last group.
func (s *scan) readGroups(tx *sqlx.Tx, p *page, sh *shard, turnedAway []string, limit int) error {
	only := slices.DeleteFunc(slices.Clone(s.grouped), func(job string) bool {
		return slices.Contains(turnedAway, job) || s.sel.job != "" && s.sel.job != job
	})
	scan := jobs.ScanDue(s.ledger.slot, new([]int16))
	args := []any{s.ledger.slot, sh.shard, pq.Array(only), sh.afterGroup, limit}
	rows, err := pgsql.Collect(s.work, tx, pgsql.PageReadGroups.In(s.schema), args, scan)
	if err != nil {
		return err
	}
	if len(rows) < limit {
		p.last = append(p.last, sh)
	} else {
		group := rows[len(rows)-1].Group()
		whole := slices.IndexFunc(rows, func(row jobs.FutureJob) bool { return row.Group() == group })
		args = []any{s.ledger.slot, sh.shard, pq.Array(only), group}
		rows, err = pgsql.Append(s.work, tx, rows[:whole], pgsql.PageReadGroup.In(s.schema), args, scan)
	}
	p.read = append(p.read, sh)
	p.rows = append(p.rows, rows...)
	p.shards = append(p.shards, slices.Repeat([]*shard{sh}, len(rows))...)
	return err
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
		if (sh.passed || limited) && (!sh.busy || limited) && sh.flying == 0 && !sh.resting && !sh.leaving {
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
