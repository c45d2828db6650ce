package unit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/call"
	"github.com/prescient-go/prescient/slots/internal/row"
)

// What is kept of a check's times, in history: with more, no two rows would be alike. See admin.HistoryRow.
const (
	latenessUnit = 100 * time.Millisecond
	durationUnit = time.Millisecond // of a row that was checked alone
)

// Outcomes returns what becomes of the rows after a call that took a while, by the results of the
// call. err is the error of every row. It logs the panics among the errors.
func (u *Unit) Outcomes(
	ctx context.Context, m guard.Moment, results []jobs.Result, err error, took time.Duration, panics *call.Panics,
) []row.Outcome {
	verdicts := make([]guard.Verdict, len(u.Rows))
	for i := range u.Rows {
		result := jobs.Result{Err: err}
		if err == nil {
			result = results[i]
		}
		if result.Err != nil && errors.Is(context.Cause(ctx), call.ErrTimeout) {
			result.Err = fmt.Errorf("%w after %s: %w", call.ErrTimeout, u.Def.Timeout, result.Err)
		}
		if p, ok := errors.AsType[*jobs.PanicError](result.Err); ok {
			panics.Check(ctx, u.Def.Name, u.Rows[i].Key().String(), p.Value, p.Stack)
		}
		verdicts[i] = guard.After(u.Def, m, &u.Rows[i], result.Next, result.Err)
		verdicts[i].Payload = result.Payload
		if result.Err == nil {
			verdicts[i].Enqueue = result.Enqueue
		}
	}
	return u.outcomes(verdicts, true, took)
}

// Unchecked returns what becomes of the rows if the function is not called.
func (u *Unit) Unchecked(v guard.Verdict) []row.Outcome {
	return u.outcomes(slices.Repeat([]guard.Verdict{v}, len(u.Rows)), false, 0)
}

// outcomes returns an outcome for each row. The run time of a batch is shared by its rows.
func (u *Unit) outcomes(verdicts []guard.Verdict, ran bool, took time.Duration) []row.Outcome {
	if len(u.Rows) == 1 {
		took = took.Round(durationUnit)
	}
	took = (took / time.Duration(len(u.Rows))).Truncate(time.Microsecond)
	list := make([]row.Outcome, len(u.Rows))
	for i := range u.Rows {
		r := &u.Rows[i]
		list[i] = row.Outcome{
			ID: r.ID, Number: u.numberOf(i), Verdict: &verdicts[i],
			Ran: ran, Lateness: r.Lateness.Truncate(latenessUnit), Duration: took,
		}
	}
	return list
}

func (u *Unit) numberOf(i int) int64 {
	if u.numbers != nil {
		return u.numbers[i]
	}
	return u.Number
}
