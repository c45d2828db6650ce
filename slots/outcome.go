package slots

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"math/big"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// outcome is what became of a row, to be recorded.
type outcome struct {
	id       int64
	page     int // that the row came with
	shard    *shard
	lane     *lane
	verdict  *jobs.Verdict // outcomes are sorted, and so are small
	ran      bool
	lateness time.Duration
	duration time.Duration
}

// tally counts what was recorded.
type tally struct {
	finished, rescheduled, failed, yielded int64
}

func (t tally) checked() int64 { return t.finished + t.rescheduled + t.failed }

// What is kept of a check's times, in history: with more, no two rows would be alike. See jobs.Ended.
const (
	latenessUnit = 100 * time.Millisecond
	durationUnit = time.Millisecond // of a row that was checked alone
)

// outcome returns what becomes of a row of a flight that took a while. The run time of a batch is shared by its rows.
func (f *flight) outcome(i int, v *jobs.Verdict, took time.Duration) outcome {
	if len(f.rows) == 1 {
		took = took.Round(durationUnit)
	}
	return outcome{
		id: f.rows[i].ID, page: f.page, shard: f.shards[i], lane: f.lane, verdict: v, ran: true,
		lateness: f.rows[i].Lateness.Truncate(latenessUnit), duration: (took / time.Duration(len(f.rows))).Truncate(time.Microsecond),
	}
}

// minAlike is how many rows make a statement of their own worth while, unless they are all there are.
const minAlike = 50

// compareShard is the order in which rows are recorded: that of the slot index.
func compareShard(a, b outcome) int {
	return cmp.Or(cmp.Compare(a.shard.shard, b.shard.shard), cmp.Compare(a.id, b.id))
}

func comparePage(a, b outcome) int { return cmp.Or(cmp.Compare(a.page, b.page), compareShard(a, b)) }

// mark is in what rows are alike.
type mark struct {
	outcome            jobs.Outcome
	move               jobs.Move
	next               time.Time
	ran                bool
	lateness, duration time.Duration
}

// mark returns the mark of an outcome; ok is false when it has what no other row has.
func (o *outcome) mark() (m mark, ok bool) {
	m = mark{o.verdict.Outcome, o.verdict.Move, o.verdict.Next, o.ran, o.lateness, o.duration}
	if m.outcome == "" {
		m.lateness = 0 // is not kept of a row that moves
	}
	return m, o.verdict.Error == "" && o.verdict.Payload == nil
}

// alike groups outcomes that differ in nothing but their row; the rest is what differs. Each is in the order of what it
// was given.
func alike(outcomes []outcome) (groups [][]outcome, rest []outcome) {
	if len(outcomes) == 0 {
		return nil, nil
	}
	first, ok := outcomes[0].mark()
	if ok && !slices.ContainsFunc(outcomes, func(o outcome) bool { m, ok := o.mark(); return m != first || !ok }) {
		return [][]outcome{outcomes}, nil
	}
	marked := map[mark][]outcome{}
	for _, o := range outcomes {
		if m, ok := o.mark(); ok {
			marked[m] = append(marked[m], o)
		} else {
			rest = append(rest, o)
		}
	}
	for _, group := range marked {
		if len(group) < minAlike {
			rest = append(rest, group...)
		} else {
			groups = append(groups, group)
		}
	}
	slices.SortFunc(rest, compareShard)
	return groups, rest
}

// part is what there is of one shard.
type part struct {
	shard    *shard
	outcomes []outcome
	ids      []int64
}

// split divides outcomes, in the order of their shards, by shard.
func split(outcomes []outcome) []part {
	var parts []part
	for len(outcomes) > 0 {
		p := part{shard: outcomes[0].shard}
		n := slices.IndexFunc(outcomes, func(o outcome) bool { return o.shard != p.shard })
		if n < 0 {
			n = len(outcomes)
		}
		p.outcomes, outcomes = outcomes[:n:n], outcomes[n:]
		p.ids = make([]int64, n)
		for i := range p.ids {
			p.ids[i] = p.outcomes[i].id
		}
		parts = append(parts, p)
	}
	return parts
}

// errNotWhole ends a transaction that finished a range of rows which is not the one that was checked.
var errNotWhole = errors.New("rows came into the range, or left it")

// recordAlike writes outcomes that are alike, and adds them up in n.
func (s *scan) recordAlike(ctx context.Context, tx *sqlx.Tx, group []outcome, ranges bool, n tallies) error {
	parts := split(group)
	if group[0].verdict.Outcome == "" {
		return s.moveAlike(ctx, tx, parts, n)
	}
	var whole, others []part
	for _, p := range parts {
		if ranges && len(group) >= minAlike && s.isWhole(p) {
			whole = append(whole, p)
		} else {
			others = append(others, p)
		}
	}
	if err := s.finishAlike(ctx, tx, whole, true, n); err != nil {
		return err
	}
	return s.finishAlike(ctx, tx, others, false, n)
}

// bounds returns the arrays of shards and their first and last ids, the first and the last id of all, and all ids.
func bounds(parts []part) (shards, firsts, lasts pq.Int64Array, first, last int64, ids pq.Int64Array) {
	for _, p := range parts {
		shards = append(shards, int64(p.shard.shard))
		firsts, lasts = append(firsts, p.ids[0]), append(lasts, p.ids[len(p.ids)-1])
		ids = append(ids, p.ids...)
	}
	return shards, firsts, lasts, slices.Min(firsts), slices.Max(lasts), ids
}

// finishAlike ends rows by their ids, or all rows from the first to the last of each shard: with errNotWhole, when they
// are not those that were checked.
func (s *scan) finishAlike(ctx context.Context, tx *sqlx.Tx, parts []part, ranges bool, n tallies) error {
	if len(parts) == 0 {
		return nil
	}
	shards, firsts, lasts, first, last, ids := bounds(parts)
	if ranges {
		ids = nil
	}
	o := parts[0].outcomes[0]
	args := []any{
		s.ledger.slot, shards, firsts, lasts, ids, o.verdict.Outcome, micros(o.lateness, o.ran), micros(o.duration, o.ran),
		s.cfg.Name, first, last,
	}
	counts, err := s.countShards(ctx, tx, pgsql.RowsFinishAlike, args)
	if err != nil {
		return err
	}
	for _, p := range parts {
		c := counts[p.shard.shard]
		if ranges && (c.rows != int64(len(p.ids)) || c.sum != sumOf(p.ids)) {
			return errNotWhole
		}
		n.add(p.shard, o, c.rows)
	}
	return nil
}

func (s *scan) moveAlike(ctx context.Context, tx *sqlx.Tx, parts []part, n tallies) error {
	shards, _, _, first, last, ids := bounds(parts)
	o := parts[0].outcomes[0]
	args := []any{s.ledger.slot, shards, first, last, ids, o.verdict.Next, o.verdict.Move, micros(o.duration, o.ran)}
	counts, err := s.countShards(ctx, tx, pgsql.RowsMoveAlike, args)
	for _, p := range parts {
		n.add(p.shard, o, counts[p.shard.shard].rows)
	}
	return err
}

// shardCount is how many rows of a shard a statement has written, and the sum of their ids.
type shardCount struct {
	shard int16
	rows  int64
	sum   string
}

func (s *scan) countShards(ctx context.Context, tx *sqlx.Tx, stmt pgsql.Statement, args []any) (map[int16]shardCount, error) {
	list, err := pgsql.Collect(ctx, tx, stmt.In(s.schema), args, func(row *sql.Rows, c *shardCount) error {
		return row.Scan(&c.shard, &c.rows, &c.sum)
	})
	counts := map[int16]shardCount{}
	for _, c := range list {
		counts[c.shard] = c
	}
	return counts, err
}

// isWhole tells whether a part is all that this pass has read of its shard from the first id to the last. The rows are
// then finished as a range, at four fifths of the cost. Not so where rows may be committed late: count and sum would not
// tell such rows from as many that were cancelled, if it happened to several of one batch.
func (s *scan) isWhole(p part) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID || !p.shard.settled || p.shard.filtered {
		return false
	}
	first, ok := slices.BinarySearch(p.shard.ids, p.ids[0])
	last := first + len(p.ids) - 1
	return ok && last < len(p.shard.ids) && p.shard.ids[last] == p.ids[len(p.ids)-1]
}

func sumOf(ids []int64) string {
	var sum, x big.Int
	for _, id := range ids {
		sum.Add(&sum, x.SetInt64(id))
	}
	return sum.String()
}

func micros(d time.Duration, known bool) sql.NullInt64 {
	return sql.NullInt64{Int64: d.Microseconds(), Valid: known}
}

// finishArgs returns the parameters of rows_finish for those of the outcomes that end their row, sorted by id; nil
// when there are none.
func (s *scan) finishArgs(sh *shard, outcomes []outcome) []any {
	var ids []int64
	var ends []string
	var errs []sql.NullString
	var lateness, duration []sql.NullInt64
	for _, o := range outcomes {
		if o.verdict.Outcome == "" {
			continue
		}
		ids = append(ids, o.id)
		ends = append(ends, string(o.verdict.Outcome))
		errs = append(errs, sql.NullString{String: o.verdict.Error, Valid: o.verdict.Error != ""})
		lateness = append(lateness, micros(o.lateness, o.ran))
		duration = append(duration, micros(o.duration, o.ran))
	}
	if ids == nil {
		return nil
	}
	return []any{
		s.ledger.slot, sh.shard, ids[0], ids[len(ids)-1], pq.Array(ids), pq.Array(ends), pq.Array(errs),
		pq.Array(lateness), pq.Array(duration), s.cfg.Name,
	}
}

// moveArgs returns the parameters of rows_move, like finishArgs.
func (s *scan) moveArgs(sh *shard, outcomes []outcome) []any {
	var ids []int64
	var kinds []string
	var next []time.Time
	var errs []sql.NullString
	var duration []sql.NullInt64
	var payloads []sql.NullString
	for _, o := range outcomes {
		if o.verdict.Outcome != "" {
			continue
		}
		if o.verdict.Payload != nil && payloads == nil {
			payloads = make([]sql.NullString, len(ids), len(outcomes))
		}
		if payloads != nil {
			payloads = append(payloads, sql.NullString{String: string(o.verdict.Payload), Valid: o.verdict.Payload != nil})
		}
		ids = append(ids, o.id)
		kinds = append(kinds, string(o.verdict.Move))
		next = append(next, o.verdict.Next)
		errs = append(errs, sql.NullString{String: o.verdict.Error, Valid: o.verdict.Error != ""})
		duration = append(duration, micros(o.duration, o.ran))
	}
	if ids == nil {
		return nil
	}
	return []any{
		s.ledger.slot, sh.shard, ids[0], ids[len(ids)-1], pq.Array(ids), pq.Array(kinds), pq.Array(next),
		pq.Array(errs), pq.Array(duration), pq.Array(payloads),
	}
}

func (t tally) plus(u tally) tally {
	return tally{t.finished + u.finished, t.rescheduled + u.rescheduled, t.failed + u.failed, t.yielded + u.yielded}
}

// expected is the tally of outcomes when all their rows are still in the slot.
func expected(outcomes []outcome) tally {
	var n tally
	for _, o := range outcomes {
		n.add(o, 1)
	}
	return n
}

// tallies are the counts of what was recorded, by shard.
type tallies map[*shard]tally

func (n tallies) add(sh *shard, o outcome, rows int64) {
	t := n[sh]
	t.add(o, rows)
	n[sh] = t
}

// shards returns the shards in their order, in which everybody locks their leases.
func (n tallies) shards() []*shard {
	return slices.SortedFunc(maps.Keys(n), func(a, b *shard) int { return cmp.Compare(a.shard, b.shard) })
}

func (n tallies) total() tally {
	var sum tally
	for _, t := range n {
		sum = sum.plus(t)
	}
	return sum
}

// add counts rows with an outcome.
func (t *tally) add(o outcome, rows int64) {
	switch {
	case o.verdict.Outcome == jobs.Failed || o.verdict.Move == jobs.MoveRetry:
		t.failed += rows
	case o.verdict.Outcome != "":
		t.finished += rows
	default:
		t.rescheduled += rows
	}
}
