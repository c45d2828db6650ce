package testkit

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
)

// Checked is the result of a check, and what happens to its row.
type Checked struct {
	// Result is the result of the function. If a batch failed as a whole, every row has its error.
	jobs.Result
	// Slot is the next slot of the row, on a grid of 15 minutes: the one the check asked for, or
	// after an error the end of the back-off. Zero: the row has ended.
	Slot time.Time
	// Outcome is how the row ended. Empty: it has not ended.
	Outcome jobs.Outcome
}

// Check calls the function of a job for one row, as a run does: inside its middleware and under its
// timeout. Limits of the job may skip the call. It needs no database. The function sees the fields
// of the row, such as Slot (zero: the instant of the function Start), Lateness, CheckCount and Payload. A panic
// goes to the test.
//
// It ends the test if the job is not registered, or takes a transaction; see CheckTx. It also ends
// the test if the function returns after its timeout without an error: a run may have given it up
// by then.
func Check(t testing.TB, registry *jobs.Registry, row jobs.FutureJob) Checked {
	t.Helper()
	return CheckBatch(t, registry, nil, []jobs.FutureJob{row})[0]
}

// CheckTx is Check for a job that writes through a transaction. The test commits it or rolls it
// back. As in a run, a check that returns no error has one if it ended the transaction, or went on
// after an error of it.
func CheckTx(t testing.TB, registry *jobs.Registry, tx *sqlx.Tx, row jobs.FutureJob) Checked {
	t.Helper()
	return CheckBatch(t, registry, tx, []jobs.FutureJob{row})[0]
}

// CheckBatch is Check for the rows of one call: a batch of one job, or the due rows of a group. tx
// is nil for a job without a transaction. It returns the result of each row, in the order of rows.
func CheckBatch(t testing.TB, registry *jobs.Registry, tx *sqlx.Tx, rows []jobs.FutureJob) []Checked {
	t.Helper()
	if len(rows) == 0 {
		return nil
	}
	def := lookup(t, registry, rows[0].JobExec)
	switch {
	case def.InTx() && tx == nil:
		t.Fatalf("job %s writes through a transaction: call CheckTx with one, or run it by a Kit", def.Name)
	case !def.Batched() && len(rows) > 1:
		t.Fatalf("job %s takes one row at a time: call Check for each", def.Name)
	}
	checked := make([]Checked, len(rows))
	var called []jobs.FutureJob
	var places []int
	for i, row := range rows {
		if !def.Grouped() && row.JobExec != def.Name {
			t.Fatalf("a batch is of one job: row %d is of %s, and the first of %s", i, row.JobExec, def.Name)
		}
		if row.Slot.IsZero() {
			row.Slot = grid.Default.Ceil(cmp.Or(row.NextCheckAt, Start()))
		}
		if v, ok := guard.Before(lookup(t, registry, row.JobExec), moment(row)); !ok {
			checked[i] = Checked{Outcome: v.Outcome, Slot: v.Next}
			continue
		}
		called, places = append(called, row), append(places, i)
	}
	for i, result := range call(t, def, tx, called) {
		row := called[i]
		v := guard.After(lookup(t, registry, row.JobExec), moment(row), &row, result.Next, result.Err)
		checked[places[i]] = Checked{Result: result, Outcome: v.Outcome, Slot: v.Next}
	}
	return checked
}

func call(t testing.TB, def *jobs.Definition, tx *sqlx.Tx, rows []jobs.FutureJob) []jobs.Result {
	t.Helper()
	if len(rows) == 0 {
		return nil
	}
	var number string // of the transaction
	records := def.InTx() && tx.Tx != nil
	if records {
		var err error
		if number, err = numberOf(t.Context(), tx); err != nil {
			t.Fatalf("job %s needs a transaction that can go on: %v", def.Name, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), def.Timeout)
	defer cancel()
	results, err := def.Call(reserved.Caller{}, ctx, tx, slices.Clone(rows))
	succeeded := func(r jobs.Result) bool { return r.Err == nil }
	if err == nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && slices.ContainsFunc(results, succeeded) {
		t.Fatalf("the check of job %s went on after its timeout of %s and returned no error: "+
			"let it end with its context, and return an error", def.Name, def.Timeout)
	}
	if err == nil && records {
		err = recordable(t.Context(), tx, number)
	}
	if err != nil {
		results = slices.Repeat([]jobs.Result{{Err: err}}, len(rows))
	}
	return results
}

// recordable returns why a run could record nothing in the transaction of a check, as a run says it. number is that of
// the transaction when the check began.
func recordable(ctx context.Context, tx *sqlx.Tx, number string) error {
	switch now, err := numberOf(ctx, tx); {
	case errors.Is(err, sql.ErrTxDone), err == nil && now != number:
		return errors.New("the check ended its transaction itself: it must return instead")
	case pg.HasState(err, pqerror.InFailedSQLTransaction):
		return fmt.Errorf("the check went on after an error of its transaction: %w", err)
	case err != nil:
		return fmt.Errorf("the check has left its transaction such that nothing can be recorded in it: %w", err)
	}
	return nil
}

// numberOf returns the number of a transaction.
func numberOf(ctx context.Context, tx jobs.Tx) (number string, err error) {
	if err = pg.One(ctx, tx, "select pg_current_xact_id()::text", nil, &number); err != nil {
		return "", fmt.Errorf("read the number of the transaction: %w", err)
	}
	return number, nil
}

func moment(row jobs.FutureJob) guard.Moment {
	return guard.Moment{Grid: grid.Default, Slot: row.Slot, Now: row.Slot.Add(row.Lateness), CaughtUp: row.CaughtUp}
}

func lookup(t testing.TB, registry *jobs.Registry, name string) *jobs.Definition {
	t.Helper()
	def, ok := registry.Lookup(name)
	if !ok {
		var names []string
		for d := range registry.All() {
			names = append(names, d.Name)
		}
		t.Fatalf("job %s is not registered; registered are %q", name, names)
	}
	return def
}
