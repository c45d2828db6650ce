package record

import (
	"cmp"
	"database/sql"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/claim"
	"github.com/prescient-go/prescient/slots/internal/db"
	"github.com/prescient-go/prescient/slots/internal/row"
)

// Writer writes the statements that record the outcomes of a run. It is safe for concurrent use, as
// long as its exported fields do not change.
type Writer struct {
	Session *claim.Session   // of the run
	Now     func() time.Time // the clock that slots are compared with

	parts atomic.Int64
}

// NextPart returns a number for what is recorded next; see prescient.fence.
func (w *Writer) NextPart() int64 { return w.parts.Add(1) }

// Forget and FreeLocks clean up what a check has left in a session of the runner's own pool, before the
// record and before the next check. Temporary tables would hide tables of the same names, and nothing
// else would release the locks.
const (
	Forget    = "reset session authorization; reset role; reset all; close all; discard temp; unlisten *"
	FreeLocks = "select pg_catalog.pg_advisory_unlock_all()"
)

// NameSession names the session, so that prescient.terminate_sessions finds it once the lease has
// ended.
func NameSession(token int64) string {
	return "set local application_name = " + pq.QuoteLiteral(session(token))
}

// Actor names the checks of a job as the actor of what they enqueue and change, unless a check names another one. The
// name of their session says nothing once the claim has ended.
func Actor(job string) string { return "check of " + job }

// NameActor sets the actor for the transaction.
func NameActor(job string) string {
	return "set local prescient_caller.actor = " + pq.QuoteLiteral(Actor(job))
}

// SetClock sets the clock that slots are compared with for the SQL of the transaction, such as prescient.enqueue and
// the triggers of rules.
func SetClock(now time.Time) string {
	return "set local prescient_caller.clock = " + pq.QuoteLiteral(now.UTC().Format(time.RFC3339Nano))
}

// nameNone ends what NameActor has set.
const nameNone = "set local prescient_caller.actor to default"

// OfRow lists the settings that begin_check and record_row make themselves.
func OfRow(token int64, lock, idle time.Duration) []any {
	return []any{session(token), db.Millis(lock), db.Millis(idle)}
}

func session(token int64) string { return "prescient claim " + strconv.FormatInt(token, 10) }

// few is how many rows are recorded one by one: planning a statement for many of them costs more.
const few = 8

// MaxMessage bounds the outcomes that a message records, in bytes.
const MaxMessage = 16 << 20

// fitting returns how many of the first outcomes take up to most bytes, at least one.
func fitting(outcomes []row.Outcome, most int64) int {
	bytes := int64(0)
	for i := range outcomes {
		if bytes += outcomes[i].Size(); bytes > most {
			return max(i, 1)
		}
	}
	return len(outcomes)
}

// AddTx adds to a check's own transaction what records its outcomes as record number part, and the
// fence. If that takes several messages, send sends all but the last. ours: the connection is of the
// runner's pool.
func (w *Writer) AddTx(
	m *pg.Message, token, part int64, outcomes []row.Outcome, transaction string, ours bool, n *row.Tally,
	send func(m *pg.Message) error,
) error {
	enqueues := slices.ContainsFunc(outcomes, row.Outcome.Enqueues)
	if enqueues || len(outcomes) > 1 { // record_row makes these settings itself
		m.Do(w.Session.Server.Settings(w.Session.Server.Lease, db.LockTimeout))
		m.Do(NameSession(token)) // also for the end of the commit
	}
	if enqueues {
		var err error
		if outcomes, err = w.enqueuing(m, outcomes, send); err != nil {
			return err
		}
	}
	if len(outcomes) == 1 {
		w.Session.Server.Unhurried(m, db.LockTimeout)
		own := append(append([]any{transaction}, OfRow(token, db.LockTimeout, w.Session.Server.Lease)...), ours)
		w.recordRow(m, token, &outcomes[0], part, own, n)
		w.addEnqueued(m, outcomes)
		return nil
	}
	if ours {
		m.Add(FreeLocks, nil, db.Nothing)
	}
	sortByID(outcomes)
	m.Add(pg.CheckSame.In(w.Session.Server.Schema), []any{transaction}, db.Nothing)
	return w.AddLocked(m, token, part, outcomes, n, send)
}

// enqueuing returns the outcomes of a check's own transaction, of which some enqueue. Those whose rows the check has
// moved or ended through it enqueue nothing. It sends m to find out; the server ends the transaction if this process
// then stands still, by the settings in m.
func (w *Writer) enqueuing(
	m *pg.Message, outcomes []row.Outcome, send func(m *pg.Message) error,
) ([]row.Outcome, error) {
	sortByID(outcomes)
	there, _ := w.Session.AddLock(m, numbersOf(outcomes), row.IDs(outcomes))
	err := send(m)
	*m = pg.Message{}
	all := slices.Clone(outcomes)
	for i := range all {
		if !there[all[i].ID] {
			verdict := *all[i].Verdict
			verdict.Enqueue, verdict.Failed = nil, ""
			all[i].Verdict = &verdict
		}
	}
	return all, err
}

// AddLocked adds to a transaction what records outcomes of rows that it has locked, in the order of
// their ids, and the fence. If that takes several messages, send sends all but the last.
func (w *Writer) AddLocked(
	m *pg.Message, token, part int64, outcomes []row.Outcome, n *row.Tally, send func(m *pg.Message) error,
) error {
	for len(outcomes) > 0 {
		some := fitting(outcomes, MaxMessage)
		w.statements(m, token, outcomes[:some], n)
		w.addEnqueued(m, outcomes[:some])
		if outcomes = outcomes[some:]; len(outcomes) > 0 {
			if err := send(m); err != nil {
				return err
			}
			*m = pg.Message{}
			m.Do(nameNone) // the records that follow are not that actor's
		}
	}
	m.Add(pg.ClaimFence.In(w.Session.Server.Schema), []any{w.Session.Slot, token, part, false, nil}, db.Nothing)
	return nil
}

// statements adds the statements that record outcomes, which are in the order of their ids, and count in n what they
// did.
func (w *Writer) statements(m *pg.Message, token int64, batch []row.Outcome, n *row.Tally) {
	if len(batch) <= few {
		for i := range batch {
			w.recordRow(m, token, &batch[i], w.NextPart(), noOwnTransaction, n)
		}
		return
	}
	like, rest := alike(batch)
	for _, group := range like {
		w.recordAlike(m, token, group, n)
	}
	var ended, moved []row.Outcome
	for _, o := range rest {
		if o.Verdict.Outcome != "" {
			ended = append(ended, o)
		} else {
			moved = append(moved, o)
		}
	}
	w.finishRows(m, token, ended, n)
	w.moveRows(m, token, moved, n)
}

// noOwnTransaction says that the transaction records more than one row.
var noOwnTransaction = make([]any, 5)

// recordRow adds the statement for one outcome. own has the fields of row_outcome that describe the transaction of the
// check, if the transaction records this row alone; otherwise it is noOwnTransaction.
func (w *Writer) recordRow(m *pg.Message, token int64, o *row.Outcome, part int64, own []any, n *row.Tally) {
	next := sql.NullTime{Time: o.Verdict.Next, Valid: o.Verdict.Outcome == ""}
	def := w.Session.Jobs.Of(o.Number)
	values := pg.Composite{
		w.Session.Slot, token, part, o.Number, def.Name, o.ID,
		nullable(string(o.Verdict.Outcome)), string(o.Verdict.Move), next,
		nullable(o.Verdict.Error), nullable(string(o.Verdict.Payload)), latenessOf(o), durationOf(o),
		o.Ran && def.SLA > 0 && o.Lateness > def.SLA, w.Session.Runner, nullable(w.journal(o)), w.Session.Clock(),
	}
	all := row.Expected([]row.Outcome{*o})
	m.Add(pg.RowRecord.In(w.Session.Server.Schema), []any{append(values, own...)}, func(row *sql.Rows) error {
		var recorded bool
		err := row.Scan(&recorded)
		if recorded {
			n.Plus(all)
		}
		return err
	})
}

// recordAlike adds the statement for outcomes that are alike.
func (w *Writer) recordAlike(m *pg.Message, token int64, batch []row.Outcome, n *row.Tally) {
	o := &batch[0]
	switch {
	case o.Verdict.Outcome == "":
		args := append(w.which(token, batch), o.Verdict.Next, string(o.Verdict.Move), durationOf(o), w.Session.Clock(),
			nullable(w.journal(o)), latenessOf(o))
		m.Add(pg.RowsMoveAlike.In(w.Session.Server.Schema), args, counts(n))
	case w.Session.Server.Citus:
		w.finishRows(m, token, batch, n)
	default:
		args := append(w.which(token, batch), string(o.Verdict.Outcome), latenessOf(o), durationOf(o), w.Session.Runner,
			w.namesOf(batch), w.Session.Clock())
		m.Add(pg.RowsFinishAlike.In(w.Session.Server.Schema), args, counts(n))
	}
}

// finishRows adds the statement for outcomes that end their rows.
func (w *Writer) finishRows(m *pg.Message, token int64, batch []row.Outcome, n *row.Tally) {
	if len(batch) == 0 {
		return
	}
	args := append(w.which(token, batch),
		pq.Array(column(batch, func(o *row.Outcome) string { return string(o.Verdict.Outcome) })),
		pq.Array(column(batch, errorOf)),
		pq.Array(column(batch, latenessOf)),
		pq.Array(column(batch, durationOf)),
		w.Session.Runner, w.namesOf(batch), w.Session.Clock(),
		pq.Array(column(batch, payloadOf)))
	finish := pg.RowsFinish
	if w.Session.Server.Citus {
		finish = pg.RowsFinishApart
	}
	m.Add(finish.In(w.Session.Server.Schema), args, countsEnds(n))
}

// moveRows adds the statement for outcomes that move their rows.
func (w *Writer) moveRows(m *pg.Message, token int64, batch []row.Outcome, n *row.Tally) {
	if len(batch) == 0 {
		return
	}
	args := append(w.which(token, batch),
		pq.Array(column(batch, func(o *row.Outcome) string { return string(o.Verdict.Move) })),
		pq.Array(column(batch, func(o *row.Outcome) time.Time { return o.Verdict.Next })),
		pq.Array(column(batch, errorOf)),
		pq.Array(column(batch, durationOf)),
		pq.Array(column(batch, payloadOf)),
		w.Session.Clock(),
		pq.Array(column(batch, func(o *row.Outcome) sql.NullString { return nullable(w.journal(o)) })),
		pq.Array(column(batch, latenessOf)))
	m.Add(pg.RowsMove.In(w.Session.Server.Schema), args, counts(n))
}

// addEnqueued adds the statements for the checks that outcomes enqueue, one for each job of outcomes. The caller locks
// the rows first, because the statements cannot tell that a row is gone.
func (w *Writer) addEnqueued(m *pg.Message, locked []row.Outcome) {
	var numbers []int64 // in order
	lists := map[int64][]jobs.Request{}
	for i := range locked {
		o := &locked[i]
		if len(o.Verdict.Enqueue) > 0 && lists[o.Number] == nil {
			numbers = append(numbers, o.Number)
		}
		lists[o.Number] = append(lists[o.Number], o.Verdict.Enqueue...)
	}
	for _, number := range numbers {
		def := w.Session.Jobs.Of(number)
		m.Do(NameActor(def.Name))
		stmt, args := def.EnqueueStatement(reserved.Caller{}, lists[number], w.Session.Clock())
		m.Add(stmt.In(w.Session.Server.Schema), args, db.Nothing)
	}
	for i := range locked {
		if o := &locked[i]; o.Verdict.Failed != "" {
			w.addFailed(m, o)
		}
	}
}

// addFailed adds the statement that gives the next row of a periodic function the error of its instant.
func (w *Writer) addFailed(m *pg.Message, o *row.Outcome) {
	next := o.Verdict.Enqueue[len(o.Verdict.Enqueue)-1]
	entry := w.journal(&row.Outcome{
		Verdict: &guard.Verdict{Move: guard.MoveRetry, Error: o.Verdict.Failed},
		Ran:     true, Lateness: o.Lateness, Duration: o.Duration,
	})
	args := []any{o.Number, next.EntityName, next.EntityKey, string(next.Payload), o.Verdict.Failed, entry}
	m.Add(pg.PeriodicFailed.In(w.Session.Server.Schema), args, db.Nothing)
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

// countsEnds reads what a statement that ends rows did: its failed rows gave up.
func countsEnds(n *row.Tally) func(row *sql.Rows) error {
	return func(rows *sql.Rows) error {
		var t row.Tally
		err := counts(&t)(rows)
		t.GaveUp = t.Failed
		n.Plus(t)
		return err
	}
}

// which are the parameters by which every statement names its rows.
func (w *Writer) which(token int64, batch []row.Outcome) []any {
	ids := row.IDs(batch)
	return []any{
		w.Session.Slot, token, w.NextPart(), pq.Int64Array(numbersOf(batch)), ids[0], ids[len(ids)-1], pq.Int64Array(ids),
	}
}

// namesOf returns the names of the jobs of outcomes.
func (w *Writer) namesOf(batch []row.Outcome) pq.StringArray {
	return w.Session.Jobs.Names(numbersOf(batch))
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

func payloadOf(o *row.Outcome) sql.NullString { return nullable(string(o.Verdict.Payload)) }

func latenessOf(o *row.Outcome) sql.NullInt64 { return micros(o.Lateness, o.Ran) }

func durationOf(o *row.Outcome) sql.NullInt64 { return micros(o.Duration, o.Ran) }

func micros(d time.Duration, known bool) sql.NullInt64 {
	return sql.NullInt64{Int64: d.Microseconds(), Valid: known}
}

func nullable(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

// sortByID brings outcomes into the order in which rows are recorded.
func sortByID(list []row.Outcome) {
	slices.SortFunc(list, func(a, b row.Outcome) int { return cmp.Compare(a.ID, b.ID) })
}

// numbersOf returns the numbers of the jobs of outcomes, in order.
func numbersOf(outcomes []row.Outcome) (numbers []int64) {
	for i := range outcomes {
		if i == 0 || outcomes[i].Number != outcomes[i-1].Number {
			numbers = append(numbers, outcomes[i].Number)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}
