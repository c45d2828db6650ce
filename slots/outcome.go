package slots

import (
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/slots/internal/row"
)

// What is kept of a check's times, in history: with more, no two rows would be alike. See admin.HistoryRow.
const (
	latenessUnit = 100 * time.Millisecond
	durationUnit = time.Millisecond // of a row that was checked alone
)

// outcomes returns what becomes of the rows of a unit that took a while. The run time of a batch is shared by its rows.
func (rd *round) outcomes(u *unit, verdicts []guard.Verdict, ran bool, took time.Duration) []row.Outcome {
	if len(u.rows) == 1 {
		took = took.Round(durationUnit)
	}
	list := make([]row.Outcome, len(u.rows))
	for i := range u.rows {
		list[i] = row.Outcome{
			ID: u.rows[i].ID, Number: u.numberOf(i), Verdict: &verdicts[i], Ran: ran,
			Lateness: u.rows[i].Lateness.Truncate(latenessUnit),
			Duration: (took / time.Duration(len(u.rows))).Truncate(time.Microsecond),
		}
	}
	return list
}

// unchecked are the outcomes of a unit whose function is not called.
func (rd *round) unchecked(u *unit, v guard.Verdict) []row.Outcome {
	return rd.outcomes(u, slices.Repeat([]guard.Verdict{v}, len(u.rows)), false, 0)
}

func (u *unit) numberOf(i int) int64 {
	if u.numbers != nil {
		return u.numbers[i]
	}
	return u.number
}
