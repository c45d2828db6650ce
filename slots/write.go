package slots

import (
	"context"
	"database/sql"
	"errors"
	"math/big"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	pgsql "github.com/prescient-go/prescient/sql"
)

// record writes outcomes in a transaction, which a fence must end. Rows that were cancelled or moved by their owner
// meanwhile are left as they are; with ranges, that is found out by an errNotWhole.
func (s *scan) record(ctx context.Context, tx *sqlx.Tx, outcomes []outcome, ranges bool) (tallies, error) {
	slices.SortFunc(outcomes, compareShard)
	n := tallies{}
	for _, p := range split(outcomes) {
		n[p.shard] = tally{}
	}
	like, rest := alike(outcomes)
	for _, group := range like {
		if err := s.recordAlike(ctx, tx, group, ranges, n); err != nil {
			return nil, err
		}
	}
	for _, p := range split(rest) {
		if err := s.recordPart(ctx, tx, p, n); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// recordPart writes outcomes of one shard that are not alike, and adds them up in n.
func (s *scan) recordPart(ctx context.Context, tx *sqlx.Tx, p part, n tallies) error {
	if args := s.finishArgs(p.shard, p.outcomes); args != nil {
		var t tally
		if err := tx.QueryRowContext(ctx, pgsql.RowsFinish.In(s.schema), args...).Scan(&t.finished, &t.failed); err != nil {
			return err
		}
		n[p.shard] = n[p.shard].plus(t)
	}
	if args := s.moveArgs(p.shard, p.outcomes); args != nil {
		var t tally
		if err := tx.QueryRowContext(ctx, pgsql.RowsMove.In(s.schema), args...).Scan(&t.rescheduled, &t.failed); err != nil {
			return err
		}
		n[p.shard] = n[p.shard].plus(t)
	}
	return nil
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

// isWhole tells whether a part is known to be all that this pass has read of its shard from the first id to the last.
// The rows are then finished as a range, at four fifths of the cost. Not so where rows may be committed late: count and
// sum would not tell such rows from as many that were cancelled, if it happened to several of one batch.
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

func micros(d time.Duration, known bool) sql.NullInt64 {
	return sql.NullInt64{Int64: d.Microseconds(), Valid: known}
}

// fence adds up in the lease rows what a batch has recorded, as its last statement. It returns ErrLeaseLost, and the
// shards that are not this runner's any more.
func (s *scan) fence(ctx context.Context, tx *sqlx.Tx, n tallies) ([]*shard, error) {
	shards := n.shards()
	var numbers, tokens, finished, rescheduled, failed pq.Int64Array
	for _, sh := range shards {
		t := n[sh]
		numbers, tokens = append(numbers, int64(sh.shard)), append(tokens, sh.token)
		finished, rescheduled, failed = append(finished, t.finished), append(rescheduled, t.rescheduled), append(failed, t.failed)
	}
	var kept []int16
	err := tx.SelectContext(ctx, &kept, pgsql.LeaseRecord.In(s.schema), s.ledger.slot, numbers, tokens, finished, rescheduled, failed)
	if err != nil || len(kept) == len(shards) {
		return nil, err
	}
	return slices.DeleteFunc(shards, func(sh *shard) bool { return slices.Contains(kept, sh.shard) }), ErrLeaseLost
}

// fenceShared is fence for a check with a transaction of its own: many of them commit at once.
func (s *scan) fenceShared(ctx context.Context, tx *sqlx.Tx, n tallies) (lost []*shard, err error) {
	for _, sh := range n.shards() {
		var number int16
		t := n[sh]
		err := tx.QueryRowContext(ctx, pgsql.LeaseFence.In(s.schema), s.ledger.slot, sh.shard, sh.token,
			t.finished, t.rescheduled, t.failed).Scan(&number)
		if errors.Is(err, sql.ErrNoRows) {
			return []*shard{sh}, ErrLeaseLost
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}
