package slots

import (
	"cmp"
	"context"
	"database/sql"
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
	verdict  jobs.Verdict
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
func (f *flight) outcome(i int, v jobs.Verdict, took time.Duration) outcome {
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
	slices.SortFunc(rest, func(a, b outcome) int { return cmp.Compare(a.id, b.id) })
	return groups, rest
}

// recordAlike writes outcomes that are alike.
func (s *scan) recordAlike(ctx context.Context, tx *sqlx.Tx, sh *shard, group []outcome) (n tally, err error) {
	ids := make([]int64, len(group))
	for i, o := range group {
		ids[i] = o.id
	}
	first := group[0]
	args := []any{s.ledger.slot, sh.shard, ids[0], ids[len(ids)-1], pq.Array(ids)}
	lateness, duration := micros(first.lateness, first.ran), micros(first.duration, first.ran)
	var result sql.Result
	if first.verdict.Outcome != "" {
		args = append(args, first.verdict.Outcome, lateness, duration, s.cfg.Name)
		result, err = tx.ExecContext(ctx, pgsql.RowsFinishAlike.In(s.schema), args...)
	} else {
		args = append(args, first.verdict.Next, first.verdict.Move, duration)
		result, err = tx.ExecContext(ctx, pgsql.RowsMoveAlike.In(s.schema), args...)
	}
	if err != nil {
		return n, err
	}
	rows, err := result.RowsAffected()
	n.add(first, rows)
	return n, err
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
