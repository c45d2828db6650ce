package slots

import (
	"database/sql"
	"slices"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/engine"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/slots/internal/server"
	pgsql "github.com/prescient-go/prescient/sql"
)

// few is how many rows are recorded one by one: planning a statement for many of them costs more.
const few = 8

// message adds the statements that record outcomes, which are in the order of their ids, and count in n what they did.
func (r *run) message(m *pgsql.Message, c *claim, batch []row.Outcome, n *row.Tally) {
	m.Do(pgsql.SlotIndexOnly.In(r.schema))
	r.statements(m, c, batch, n)
}

// messageTx adds to a check's own transaction what records its outcomes, and the fence. ours: its connection is of the runner's pool.
func (r *run) messageTx(m *pgsql.Message, c *claim, outcomes []row.Outcome, transaction string, ours bool, n *row.Tally) (part int64) {
	part = r.writing.parts.Add(1)
	if len(outcomes) == 1 {
		r.server.Unhurried(m, server.LockTimeout)
		own := append(append([]any{transaction}, ofRow(c, server.LockTimeout, r.cfg.Lease)...), ours)
		r.recordRow(m, c, &outcomes[0], part, own, n)
		r.addEnqueued(m, outcomes)
		return part
	}
	m.Do(r.server.Settings(r.cfg.Lease, server.LockTimeout))
	m.Do(nameSession(c)) // also for the end of the commit
	if ours {
		m.Add(unlock, nil, server.Nothing)
	}
	row.Sort(outcomes)
	m.Add(pgsql.CheckSame.In(r.schema), []any{transaction}, server.Nothing)
	r.statements(m, c, outcomes, n)
	r.addEnqueued(m, outcomes)
	m.Add(pgsql.ClaimFence.In(r.schema), []any{r.slot, c.Token, part, false, nil}, server.Nothing)
	return part
}

func (r *run) statements(m *pgsql.Message, c *claim, batch []row.Outcome, n *row.Tally) {
	if len(batch) <= few {
		for i := range batch {
			r.recordRow(m, c, &batch[i], r.writing.parts.Add(1), shared, n)
		}
		return
	}
	like, rest := row.Alike(batch)
	for _, group := range like {
		r.recordAlike(m, c, group, n)
	}
	r.finishRows(m, c, row.Only(rest, func(o *row.Outcome) bool { return o.Verdict.Outcome != "" }), n)
	r.moveRows(m, c, row.Only(rest, func(o *row.Outcome) bool { return o.Verdict.Outcome == "" }), n)
}

// shared is what recordRow says of a transaction in which more is recorded.
var shared = make([]any, 5)

// recordRow adds the statement for one outcome. own is what the row_outcome says of the transaction of a check that it is the only outcome of.
func (r *run) recordRow(m *pgsql.Message, c *claim, o *row.Outcome, part int64, own []any, n *row.Tally) {
	next := sql.NullTime{Time: o.Verdict.Next, Valid: o.Verdict.Outcome == ""}
	def := r.known[o.Number].def
	values := pgsql.Composite{
		r.slot, c.Token, part, o.Number, def.Name, o.ID, nullable(string(o.Verdict.Outcome)), string(o.Verdict.Move), next,
		nullable(o.Verdict.Error), nullable(string(o.Verdict.Payload)), latenessOf(o), durationOf(o),
		o.Ran && def.SLA > 0 && o.Lateness > def.SLA, r.cfg.Name, nullable(r.trace(o)), r.clock(),
	}
	all := row.Expected([]row.Outcome{*o})
	m.Add(pgsql.RowRecord.In(r.schema), []any{append(values, own...)}, func(row *sql.Rows) error {
		var recorded bool
		err := row.Scan(&recorded)
		if recorded {
			n.Plus(all)
		}
		return err
	})
}

// recordAlike adds the statement for outcomes that are alike.
func (r *run) recordAlike(m *pgsql.Message, c *claim, batch []row.Outcome, n *row.Tally) {
	o := &batch[0]
	switch {
	case o.Verdict.Outcome == "":
		args := append(r.which(c, batch), o.Verdict.Next, string(o.Verdict.Move), durationOf(o), r.clock(), nullable(r.trace(o)), latenessOf(o))
		m.Add(pgsql.RowsMoveAlike.In(r.schema), args, counts(n))
	case r.setting.Citus:
		r.finishRows(m, c, batch, n)
	default:
		args := append(r.which(c, batch), string(o.Verdict.Outcome), latenessOf(o), durationOf(o), r.cfg.Name, r.namesOf(batch), r.clock())
		m.Add(pgsql.RowsFinishAlike.In(r.schema), args, counts(n))
	}
}

// finishRows adds the statement for outcomes that end their rows.
func (r *run) finishRows(m *pgsql.Message, c *claim, batch []row.Outcome, n *row.Tally) {
	if len(batch) == 0 {
		return
	}
	args := append(r.which(c, batch),
		pq.Array(column(batch, func(o *row.Outcome) string { return string(o.Verdict.Outcome) })),
		pq.Array(column(batch, errorOf)),
		pq.Array(column(batch, latenessOf)),
		pq.Array(column(batch, durationOf)),
		r.cfg.Name, r.namesOf(batch), r.clock())
	finish := pgsql.RowsFinish
	if r.setting.Citus {
		finish = pgsql.RowsFinishApart
	}
	m.Add(finish.In(r.schema), args, counts(n))
}

// moveRows adds the statement for outcomes that move their rows.
func (r *run) moveRows(m *pgsql.Message, c *claim, batch []row.Outcome, n *row.Tally) {
	if len(batch) == 0 {
		return
	}
	args := append(r.which(c, batch),
		pq.Array(column(batch, func(o *row.Outcome) string { return string(o.Verdict.Move) })),
		pq.Array(column(batch, func(o *row.Outcome) time.Time { return o.Verdict.Next })),
		pq.Array(column(batch, errorOf)),
		pq.Array(column(batch, durationOf)),
		pq.Array(column(batch, func(o *row.Outcome) sql.NullString { return nullable(string(o.Verdict.Payload)) })),
		r.clock(),
		pq.Array(column(batch, func(o *row.Outcome) sql.NullString { return nullable(r.trace(o)) })),
		pq.Array(column(batch, latenessOf)))
	m.Add(pgsql.RowsMove.In(r.schema), args, counts(n))
}

// addEnqueued adds the statement for what outcomes ask for. Their rows must be locked: what comes of one that is gone is
// nobody's to ask for.
func (r *run) addEnqueued(m *pgsql.Message, locked []row.Outcome) {
	var list []jobs.FutureJob
	for i := range locked {
		list = append(list, locked[i].Verdict.Enqueue...)
	}
	if len(list) > 0 {
		stmt, args := engine.EnqueueStatement(list, r.clock())
		m.Add(stmt.In(r.schema), args, server.Nothing)
	}
}

// counts reads what a statement did.
func counts(n *row.Tally) func(row *sql.Rows) error {
	return func(rows *sql.Rows) error {
		var t row.Tally
		err := rows.Scan(&t.Finished, &t.Rescheduled, &t.Failed)
		n.Plus(t)
		return err
	}
}

// which are the parameters by which every statement names its rows.
func (r *run) which(c *claim, batch []row.Outcome) []any {
	ids := idsOf(batch)
	return []any{r.slot, c.Token, r.writing.parts.Add(1), numbersOf(batch), ids[0], ids[len(ids)-1], pq.Int64Array(ids)}
}

func idsOf(batch []row.Outcome) []int64 {
	return column(batch, func(o *row.Outcome) int64 { return o.ID })
}

func numbersOf(batch []row.Outcome) (numbers pq.Int64Array) {
	for i := range batch {
		if i == 0 || batch[i].Number != batch[i-1].Number {
			numbers = append(numbers, batch[i].Number)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// namesOf are the names of the jobs of numbersOf.
func (r *run) namesOf(batch []row.Outcome) pq.StringArray { return r.names(numbersOf(batch)) }

// names are the names of jobs that are registered here.
func (r *run) names(numbers []int64) (names []string) {
	for _, number := range numbers {
		names = append(names, r.known[number].def.Name)
	}
	return names
}

// clock is the parameter by which statements learn of a replayed clock: nil asks the database.
func (r *run) clock() any {
	if r.cfg.Now != nil {
		return r.cfg.Now()
	}
	return nil
}

// column is one value of each outcome.
func column[T any](batch []row.Outcome, value func(o *row.Outcome) T) []T {
	list := make([]T, len(batch))
	for i := range batch {
		list[i] = value(&batch[i])
	}
	return list
}

func errorOf(o *row.Outcome) sql.NullString { return nullable(o.Verdict.Error) }

func latenessOf(o *row.Outcome) sql.NullInt64 { return micros(o.Lateness, o.Ran) }

func durationOf(o *row.Outcome) sql.NullInt64 { return micros(o.Duration, o.Ran) }

func micros(d time.Duration, known bool) sql.NullInt64 {
	return sql.NullInt64{Int64: d.Microseconds(), Valid: known}
}

func nullable(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }
