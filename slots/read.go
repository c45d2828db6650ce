package slots

import (
	"maps"
	"slices"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

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
