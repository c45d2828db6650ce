package slots

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

const (
	// slowWrite is what a record takes at the most before the next ones are made smaller, down to minWrite rows, so that
	// the locks on a server under pressure are short.
	slowWrite = 500 * time.Millisecond
	minWrite  = 20
	// few is how many rows are recorded one by one: planning a statement for many of them costs more.
	few = 8
	// waryFor is how long a run looks first what is locked, once it has waited in vain for a lock.
	waryFor = 5 * time.Second
)

// settings are those of a transaction of the engine: how long it waits for a lock, and when the server ends it since this
// process was stopped in its middle.
func (r *Runner) settings(idle, lock time.Duration) string {
	ends := min(idle.Milliseconds(), math.MaxInt32) // 24 days
	return fmt.Sprintf("%s; set local idle_in_transaction_session_timeout = %d; set local statement_timeout = 0", r.waitForLocks(lock), ends)
}

// waitForLocks is pgsql.WaitForLocks, or what it comes to where there are no workers to be told.
func (r *Runner) waitForLocks(most time.Duration) string {
	if r.setting.Citus {
		return pgsql.WaitForLocks(most).In(r.schema)
	}
	return fmt.Sprintf("set local lock_timeout = %d", most.Milliseconds())
}

// record records outcomes of a claim, and ends it with the last. It returns those whose rows somebody else has locked.
func (r *run) record(c *claim, batch []outcome, ends bool) (locked []outcome, err error) {
	if len(batch) == 0 {
		if ends {
			err = r.end(c)
		}
		return nil, err
	}
	sortOutcomes(batch)
	for len(batch) > 0 && err == nil {
		n := min(len(batch), int(r.write.Load()))
		var rest []outcome
		rest, err = r.recordSome(c, batch[:n], ends && n == len(batch) && len(locked) == 0)
		locked, batch = append(locked, rest...), batch[n:]
	}
	return locked, err
}

func (r *run) recordSome(c *claim, batch []outcome, ends bool) (locked []outcome, err error) {
	r.writers <- struct{}{}
	defer r.writers.leave()
	if time.Since(r.born) < time.Duration(r.wary.Load()) || slices.ContainsFunc(batch, outcome.enqueues) {
		return r.recordApart(c, batch, false)
	}
	began := monotonic()
	err = r.recordAll(c, batch, ends)
	if pgsql.IsLockTimeout(err) || pgsql.IsRetryable(err) {
		r.wary.Store(int64(time.Since(r.born) + waryFor))
		return r.recordFree(c, batch, false)
	}
	r.adaptWrite(time.Since(began))
	return nil, err
}

// adaptWrite halves what is recorded at once when that was slow, and doubles it, up to a page, when it was quick.
func (r *run) adaptWrite(took time.Duration) {
	switch n := r.write.Load(); {
	case took > slowWrite:
		r.write.Store(max(n/2, min(minWrite, int64(r.cfg.Page))))
	case took < slowWrite/4:
		r.write.Store(min(2*n, int64(r.cfg.Page)))
	}
}

// recordAll records outcomes straight, in one message.
func (r *run) recordAll(c *claim, batch []outcome, ends bool) error {
	var m pgsql.Message
	var n tally
	var end string
	m.Do(r.waitForLocks(lockTimeout))
	err := r.message(&m, c, batch, &n)
	m.Do(r.waitForLocks(ownTimeout))
	part := r.parts.Add(1)
	if err == nil {
		err = m.Add(pgsql.ClaimFence.In(r.schema), []any{r.slot, c.token, part, ends}, nothing)
	}
	if err == nil && ends && c.leaves {
		err = m.Add(pgsql.SlotUnsettle.In(r.schema), []any{r.slot}, nothing)
	}
	if err == nil && ends && c.closes {
		err = m.Add(pgsql.SlotClose.In(r.schema), []any{r.slot, false, c.token}, func(row *sql.Rows) error { return row.Scan(&end) })
	}
	if err == nil {
		if ends {
			c.ending.Store(true)
		}
		err = r.commitOnce(c, part, &m, &n, expected(batch))
	}
	switch {
	case isLost(err):
		r.leases.lose(c)
		return nil
	case err != nil:
		c.ending.Store(false)
		return err
	}
	c.done = ends
	if end == "done" {
		r.closed.Store(true)
	}
	n.yielded = int64(len(batch)) - n.checked()
	r.count(n, batch)
	return nil
}

// commitOnce sends a message that ends with the fence, again while the database cannot do it. Where the reply to it is lost
// it finds out what became of it, and then n is all.
func (r *run) commitOnce(c *claim, part int64, m *pgsql.Message, n *tally, all tally) error {
	unknown := false // a message whose reply was lost may still be carried out, and has locks until then
	waits := func(err error) bool { return pgsql.IsTransient(err) || unknown && pgsql.IsLockTimeout(err) }
	return r.retry(r.work, waits, func() error {
		if unknown {
			done, err := r.find(c, part)
			if done {
				*n = all
			}
			if done || err != nil {
				return err
			}
		}
		*n = tally{}
		err := r.commit(r.work, m)
		if unknown && (pgsql.HasState(err, pqerror.UniqueViolation) || isLost(err)) { // of its mark; or it has ended the claim
			if done, _ := r.find(c, part); done {
				*n, err = all, nil
			}
		}
		unknown = unknown || pgsql.IsTransient(err)
		return err
	})
}

// find finds out whether a record was committed. Where it was not, and the claim is gone, the lease is lost. The mark of a record
// goes with its slot, which another may have closed since; but nothing else ends a claim while its lease is good.
func (r *run) find(c *claim, part int64) (done bool, err error) {
	var held bool
	err = r.ask(r.work, pgsql.RecordFind, []any{r.slot, c.token, part}, func(row *sql.Rows) error { return row.Scan(&done, &held) })
	if err == nil && !done && !held {
		if done = c.ending.Load() && r.leases.good(c); !done {
			err = ErrLeaseLost
		}
	}
	return done, err
}

// recordLocked takes up what somebody else had locked. One claim at a time waits for the first of its rows.
func (r *run) recordLocked(c *claim) (locked []outcome, err error) {
	if r.patience.try() {
		defer r.patience.leave()
		return r.recordApart(c, c.locked, true)
	}
	r.writers <- struct{}{}
	defer r.writers.leave()
	return r.recordApart(c, c.locked, false)
}

// recordApart is recordFree, and again in ever smaller parts where nothing could be recorded: a key that an outcome asks for may be
// somebody's who has not committed, and the others need not wait for him. It takes as long as a write may; what is left then has
// its turn the next time, in another order.
func (r *run) recordApart(c *claim, batch []outcome, patient bool) (locked []outcome, err error) {
	locked, err = r.recordFree(c, batch, patient)
	if len(locked) < len(batch) || !slices.ContainsFunc(batch, outcome.enqueues) {
		return locked, err
	}
	rand.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
	began, parts := monotonic(), [][]outcome{batch}
	for locked = nil; len(parts) > 0; parts = parts[1:] {
		part := parts[0]
		if len(part) == 1 || time.Since(began) > slowWrite {
			locked = append(locked, part...)
			continue
		}
		for half := range slices.Chunk(part, (len(part)+1)/2) {
			rest, err := r.recordFree(c, half, false)
			switch {
			case err != nil:
				return nil, err
			case len(rest) < len(half):
				locked = append(locked, rest...)
			default:
				parts = append(parts, rest)
			}
		}
	}
	return locked, nil
}

// end ends a claim of which nothing is left.
func (r *run) end(c *claim) error { return r.recordAll(c, nil, true) }

// patientFor is lock_timeout of one who has no lock yet, in the queue for a row that others lock again and again. Nobody waits
// for him.
const patientFor = 900 * time.Millisecond

// recordFree records the rows that nobody else has locked, and returns the others: their checks have run and must not
// run again. The patient wait for the first of the rows before.
func (r *run) recordFree(c *claim, batch []outcome, patient bool) (locked []outcome, err error) {
	if len(batch) == 0 {
		return nil, nil
	}
	sortOutcomes(batch)
	var n tally
	var busy map[int64]bool
	var without []lost // a reply
	waits := func(err error) bool {
		return pgsql.IsTransient(err) || len(without) > 0 && (pgsql.IsLockTimeout(err) || errors.Is(err, errAgain))
	}
	err = r.retry(r.work, waits, func() error {
		sent := lost{part: r.parts.Add(1)}
		err := pgsql.InTx(r.work, r.cfg.DB, func(tx *sqlx.Tx) (err error) {
			var free map[int64]bool
			if free, busy, err = r.lockFree(tx, batch, patient); err != nil {
				return err
			}
			if slices.ContainsFunc(without, func(l lost) bool { return l.has(busy) }) {
				return errAgain // until it is carried out, or not
			}
			n, sent.outcomes = tally{}, only(batch, func(o *outcome) bool { return free[o.id] })
			return r.recordThere(tx, c, sent, &n)
		})
		if pgsql.IsTransient(err) && len(sent.outcomes) > 0 {
			without = append(without, sent)
		}
		return err
	})
	switch {
	case isLost(err):
		r.leases.lose(c)
		return nil, nil
	case pgsql.IsLockTimeout(err) || pgsql.IsRetryable(err) || errors.Is(err, errAgain):
		return batch, nil
	case err != nil:
		return nil, err
	}
	for _, l := range without {
		if done, _ := r.find(c, l.part); done {
			n.plus(expected(l.outcomes))
		}
	}
	done := only(batch, func(o *outcome) bool { return !busy[o.id] })
	n.yielded = int64(len(done)) - n.checked()
	r.count(n, done)
	return only(batch, func(o *outcome) bool { return busy[o.id] }), nil
}

// lost is a record whose reply was: it may still be carried out.
type lost struct {
	part     int64
	outcomes []outcome
}

// has tells whether a row of it is among some.
func (l lost) has(rows map[int64]bool) bool {
	return slices.ContainsFunc(l.outcomes, func(o outcome) bool { return rows[o.id] })
}

// lockFree locks the rows of a batch that nobody else has locked.
func (r *run) lockFree(tx *sqlx.Tx, batch []outcome, patient bool) (free, busy map[int64]bool, err error) {
	var m pgsql.Message
	m.Do(r.settings(r.cfg.Lease, lockTimeout))
	m.Do(pgsql.SlotIndexOnly.In(r.schema))
	if patient {
		m.Do(r.waitForLocks(patientFor))
		if err := m.Add(pgsql.RowWait.In(r.schema), []any{r.slot, batch[0].number, batch[0].id}, nothing); err != nil {
			return nil, nil, err
		}
	}
	return r.lockRows(r.work, tx, &m, numbersOf(batch), idsOf(batch))
}

// recordThere records outcomes whose rows are locked.
func (r *run) recordThere(tx *sqlx.Tx, c *claim, sent lost, n *tally) error {
	var m pgsql.Message
	if err := errors.Join(r.message(&m, c, sent.outcomes, n), r.addEnqueued(&m, sent.outcomes)); err != nil {
		return err
	}
	if err := m.Add(pgsql.ClaimFence.In(r.schema), []any{r.slot, c.token, sent.part, false}, nothing); err != nil {
		return err
	}
	return m.Send(r.work, tx)
}

// message adds the statements that record outcomes, which are in the order of their ids, and count in n what they did.
func (r *run) message(m *pgsql.Message, c *claim, batch []outcome, n *tally) error {
	m.Do(pgsql.SlotIndexOnly.In(r.schema))
	return r.statements(m, c, batch, n)
}

func (r *run) statements(m *pgsql.Message, c *claim, batch []outcome, n *tally) error {
	if len(batch) <= few {
		for i := range batch {
			if err := r.recordRow(m, c, &batch[i], r.parts.Add(1), "", n); err != nil {
				return err
			}
		}
		return nil
	}
	like, rest := alike(batch)
	for _, group := range like {
		if err := r.recordAlike(m, c, group, n); err != nil {
			return err
		}
	}
	if err := r.finishRows(m, c, only(rest, func(o *outcome) bool { return o.verdict.Outcome != "" }), n); err != nil {
		return err
	}
	return r.moveRows(m, c, only(rest, func(o *outcome) bool { return o.verdict.Outcome == "" }), n)
}

// addEnqueued adds the statement for what outcomes ask for. Their rows must be locked: what comes of one that is gone is
// nobody's to ask for.
func (r *run) addEnqueued(m *pgsql.Message, locked []outcome) error {
	var list []jobs.FutureJob
	for i := range locked {
		list = append(list, locked[i].verdict.Enqueue...)
	}
	if len(list) == 0 {
		return nil
	}
	stmt, args := jobs.EnqueueStatement(list, r.clock())
	return m.Add(stmt.In(r.schema), args, nothing)
}

// counts reads what a statement did.
func counts(n *tally) func(row *sql.Rows) error {
	return func(row *sql.Rows) error {
		var t tally
		err := row.Scan(&t.finished, &t.rescheduled, &t.failed)
		n.plus(t)
		return err
	}
}

// which are the parameters by which every statement names its rows.
func (r *run) which(c *claim, batch []outcome) []any {
	ids := idsOf(batch)
	return []any{r.slot, c.token, r.parts.Add(1), numbersOf(batch), ids[0], ids[len(ids)-1], pq.Int64Array(ids)}
}

func idsOf(batch []outcome) []int64 {
	return column(batch, func(o *outcome) int64 { return o.id })
}

func numbersOf(batch []outcome) (numbers pq.Int64Array) {
	for i := range batch {
		if i == 0 || batch[i].number != batch[i-1].number {
			numbers = append(numbers, batch[i].number)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// namesOf are the names of the jobs of numbersOf.
func (r *run) namesOf(batch []outcome) pq.StringArray { return r.names(numbersOf(batch)) }

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

// recordRow adds the statement for one outcome; with the number of its transaction that for the only one of a check.
func (r *run) recordRow(m *pgsql.Message, c *claim, o *outcome, part int64, transaction string, n *tally) error {
	var next any
	if o.verdict.Outcome == "" {
		next = o.verdict.Next
	}
	args := []any{
		r.slot, c.token, part, o.number, r.known[o.number].def.Name, o.id, nullable(string(o.verdict.Outcome)), string(o.verdict.Move),
		next, nullable(o.verdict.Error), nullable(string(o.verdict.Payload)), micros(o.lateness, o.ran), micros(o.duration, o.ran), r.cfg.Name, nullable(r.trace(o)), r.clock(),
		nullable(transaction),
	}
	all := expected([]outcome{*o})
	return m.Call(pgsql.RowRecord.In(r.schema), args, func(row *sql.Rows) error {
		var recorded bool
		err := row.Scan(&recorded)
		if recorded {
			n.plus(all)
		}
		return err
	})
}

// recordAlike adds the statement for outcomes that are alike.
func (r *run) recordAlike(m *pgsql.Message, c *claim, batch []outcome, n *tally) error {
	o := batch[0]
	if o.verdict.Outcome == "" {
		args := append(r.which(c, batch), o.verdict.Next, string(o.verdict.Move), micros(o.duration, o.ran), r.clock(),
			nullable(r.trace(&o)), micros(o.lateness, o.ran))
		return m.Add(pgsql.RowsMoveAlike.In(r.schema), args, counts(n))
	}
	if r.setting.Citus {
		return r.finishRows(m, c, batch, n)
	}
	args := append(r.which(c, batch), string(o.verdict.Outcome), micros(o.lateness, o.ran), micros(o.duration, o.ran), r.cfg.Name, r.namesOf(batch))
	return m.Add(pgsql.RowsFinishAlike.In(r.schema), args, counts(n))
}

// finishRows adds the statement for outcomes that end their rows.
func (r *run) finishRows(m *pgsql.Message, c *claim, batch []outcome, n *tally) error {
	if len(batch) == 0 {
		return nil
	}
	args := append(r.which(c, batch),
		pq.Array(column(batch, func(o *outcome) string { return string(o.verdict.Outcome) })),
		pq.Array(column(batch, errorOf)),
		pq.Array(column(batch, latenessOf)),
		pq.Array(column(batch, durationOf)),
		r.cfg.Name, r.namesOf(batch))
	finish := pgsql.RowsFinish
	if r.setting.Citus {
		finish = pgsql.RowsFinishApart
	}
	return m.Add(finish.In(r.schema), args, counts(n))
}

// moveRows adds the statement for outcomes that move their rows.
func (r *run) moveRows(m *pgsql.Message, c *claim, batch []outcome, n *tally) error {
	if len(batch) == 0 {
		return nil
	}
	args := append(r.which(c, batch),
		pq.Array(column(batch, func(o *outcome) string { return string(o.verdict.Move) })),
		pq.Array(column(batch, func(o *outcome) time.Time { return o.verdict.Next })),
		pq.Array(column(batch, errorOf)),
		pq.Array(column(batch, durationOf)),
		pq.Array(column(batch, func(o *outcome) sql.NullString {
			return sql.NullString{String: string(o.verdict.Payload), Valid: o.verdict.Payload != nil}
		})),
		r.clock(),
		pq.Array(column(batch, func(o *outcome) sql.NullString {
			entry := r.trace(o)
			return sql.NullString{String: entry, Valid: entry != ""}
		})),
		pq.Array(column(batch, latenessOf)))
	return m.Add(pgsql.RowsMove.In(r.schema), args, counts(n))
}

// column is one value of each outcome.
func column[T any](batch []outcome, value func(o *outcome) T) []T {
	list := make([]T, len(batch))
	for i := range batch {
		list[i] = value(&batch[i])
	}
	return list
}

func errorOf(o *outcome) sql.NullString {
	return sql.NullString{String: o.verdict.Error, Valid: o.verdict.Error != ""}
}

func latenessOf(o *outcome) sql.NullInt64 { return micros(o.lateness, o.ran) }

func durationOf(o *outcome) sql.NullInt64 { return micros(o.duration, o.ran) }

func micros(d time.Duration, known bool) sql.NullInt64 {
	return sql.NullInt64{Int64: d.Microseconds(), Valid: known}
}

// messageTx adds to a check's own transaction what records its outcomes, and the fence.
func (r *run) messageTx(m *pgsql.Message, c *claim, outcomes []outcome, transaction string, n *tally) (part int64, err error) {
	part = r.parts.Add(1)
	m.Do(r.settings(r.cfg.Lease, lockTimeout))
	m.Do(nameSession(c)) // also for the end of the commit
	if len(outcomes) == 1 {
		return part, errors.Join(r.recordRow(m, c, &outcomes[0], part, transaction, n), r.addEnqueued(m, outcomes))
	}
	if err := m.Add(pgsql.CheckSame.In(r.schema), []any{transaction}, nothing); err != nil {
		return part, err
	}
	sortOutcomes(outcomes)
	if err := errors.Join(r.statements(m, c, outcomes, n), r.addEnqueued(m, outcomes)); err != nil {
		return part, err
	}
	return part, m.Add(pgsql.ClaimFence.In(r.schema), []any{r.slot, c.token, part, false}, nothing)
}

// rollBackPrepared rolls back the transaction of a check that has prepared it for two-phase commit, and so would keep its
// row locked for ever. number is that of the transaction.
func (r *run) rollBackPrepared(ctx context.Context, number string) {
	if number == "" {
		return
	}
	conn, err := r.cfg.DB.Connx(ctx)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	var m pgsql.Message
	var gid string
	if m.Add(pgsql.CheckPrepared.In(r.schema), []any{number}, func(row *sql.Rows) error { return row.Scan(&gid) }) != nil ||
		m.Send(ctx, conn) != nil || gid == "" {
		return
	}
	if _, err := conn.ExecContext(ctx, "rollback prepared "+pq.QuoteLiteral(gid)); err != nil {
		r.cfg.Logger.ErrorContext(ctx, "a check has prepared its transaction, which keeps its row locked until it is rolled back", "gid", gid, "error", err)
	}
}

func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}
