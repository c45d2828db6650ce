package slots

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
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
		id: f.rows[i].ID, lane: f.lane, verdict: v, ran: true,
		lateness: f.rows[i].Lateness.Truncate(latenessUnit), duration: took / time.Duration(len(f.rows)),
	}
}

// minAlike is how many rows make a statement of their own worth while, unless they are all there are.
const minAlike = 50

func compareID(a, b outcome) int { return cmp.Compare(a.id, b.id) }

// alike groups outcomes, sorted by id, that differ in nothing but their row; the rest is what differs.
func alike(outcomes []outcome) (groups [][]outcome, rest []outcome) {
	type mark struct {
		outcome            jobs.Outcome
		move               jobs.Move
		next               time.Time
		ran                bool
		lateness, duration time.Duration
	}
	marked := map[mark][]outcome{}
	for _, o := range outcomes {
		m := mark{o.verdict.Outcome, o.verdict.Move, o.verdict.Next, o.ran, o.lateness, o.duration}
		if m.outcome == "" {
			m.lateness = 0 // is not kept of a row that moves
		}
		if o.verdict.Error != "" || o.verdict.Payload != nil {
			rest = append(rest, o)
		} else {
			marked[m] = append(marked[m], o)
		}
	}
	for _, group := range marked {
		if len(group) < min(minAlike, len(outcomes)) {
			rest = append(rest, group...)
		} else {
			groups = append(groups, group)
		}
	}
	slices.SortFunc(rest, compareID)
	return groups, rest
}

// errNotWhole ends a transaction that finished a range of rows which is not the one that was checked.
var errNotWhole = errors.New("rows came into the range, or left it")

// recordAlike writes outcomes that are alike.
func (s *scan) recordAlike(ctx context.Context, tx *sqlx.Tx, sh *shard, group []outcome, ranges bool) (n tally, err error) {
	ids := make([]int64, len(group))
	for i, o := range group {
		ids[i] = o.id
	}
	first, last := ids[0], ids[len(ids)-1]
	lateness, duration := micros(group[0].lateness, group[0].ran), micros(group[0].duration, group[0].ran)
	args := []any{s.ledger.slot, sh.shard, first, last, pq.Array(ids)}
	if verdict := group[0].verdict; verdict.Outcome == "" {
		args = append(args, verdict.Next, verdict.Move, duration)
		result, err := tx.ExecContext(ctx, pgsql.RowsMoveAlike.In(s.schema), args...)
		if err != nil {
			return n, err
		}
		rows, err := result.RowsAffected()
		n.add(group[0], rows)
		return n, err
	}
	ranges = ranges && s.isWhole(sh, ids)
	if ranges {
		args[4] = nil
	}
	args = append(args, group[0].verdict.Outcome, lateness, duration, s.cfg.Name)
	var rows int64
	var sum string
	if err := tx.QueryRowContext(ctx, pgsql.RowsFinishAlike.In(s.schema), args...).Scan(&rows, &sum); err != nil {
		return n, err
	}
	if ranges && (rows != int64(len(ids)) || sum != sumOf(ids)) {
		return n, errNotWhole
	}
	n.add(group[0], rows)
	return n, nil
}

// isWhole tells whether ids, in order, are all that this pass has read of a shard from the first of them to the last.
// The rows are then finished as a range, at four fifths of the cost. Not so where rows may be committed late: count and
// sum would not tell such rows from as many that were cancelled, if it happened to several of one batch.
func (s *scan) isWhole(sh *shard, ids []int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID || !sh.settled || sh.filtered || len(ids) < minAlike {
		return false
	}
	first, ok := slices.BinarySearch(sh.ids, ids[0])
	last := first + len(ids) - 1
	return ok && last < len(sh.ids) && sh.ids[last] == ids[len(ids)-1]
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
