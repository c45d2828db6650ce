package unit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/row"
)

// Unit is the rows of one call: a row, the rows of a batch, or those of a group. It is called until its rows are done,
// one call at a time. The goroutine of the call changes it.
type Unit struct {
	Def     *jobs.Definition
	Number  int64 // of the job; for a group the job of its first row
	Rows    []jobs.FutureJob
	Group   *Group         // nil: it is no group
	Verdict *guard.Verdict // set if no call is needed
	Watch   Watch          // of the call
	Wait    Wait           // why it was not done before
	Tried   Tried
	Failure Failure

	mixed mixed // for a group
	one   [1]jobs.FutureJob
}

// Wait says why a unit was not done yet, and so what it waits for.
type Wait string

// The waits.
const (
	Untried  Wait = ""          // it has not been called; if it was postponed, it waits for a permit
	Locked   Wait = "locked"    // another session has a lock of its rows, or of what its function needs
	Repeated Wait = "repeated"  // the database could not do it
	Divided  Wait = "divided"   // it is a part of a call that failed as a whole, or had no room for it
	SplitOff Wait = "split off" // a call goes on without it. It begins at once
)

// Job is the job of a row of a group.
type Job struct {
	Number int64
	Def    *jobs.Definition
}

// mixed describes rows of several jobs. The zero value is for rows of the job of the unit, which are all checked.
type mixed struct {
	jobs      []Job            // of each row
	unchecked []*guard.Verdict // of each row that must not be checked now; nil: the function gets it
}

// verdict returns the verdict on a row that must not be checked now. Nil: the function gets it.
func (m mixed) verdict(i int) *guard.Verdict {
	if m.unchecked == nil {
		return nil
	}
	return m.unchecked[i]
}

// jobOf returns the job of a row of a unit.
func jobOf(u *Unit, i int) Job {
	if u.mixed.jobs != nil {
		return u.mixed.jobs[i]
	}
	return Job{Number: u.Number, Def: u.Def}
}

// Group describes a group of rows that one call checks.
type Group struct {
	Key        GroupKey
	Members    []int64 // its rows that are in the claim
	Unreadable []int64 // rows of other claims that cannot be read
	Rest       []int64 // members that are not in this call, because it has no room for them
}

// String names the rows in the log.
func (u *Unit) String() string {
	if len(u.Rows) == 1 {
		return u.Rows[0].Key().String()
	}
	return fmt.Sprintf("%d rows of %s", len(u.Rows), u.Def.Name)
}

// Size returns the number of rows of the claim in the unit.
func (u *Unit) Size() int64 {
	if u.Group != nil {
		return int64(len(u.Group.Members))
	}
	return int64(len(u.Rows))
}

// IsAlone reports whether the row was left to a call of its own, which may take long.
func (u *Unit) IsAlone() bool { return u.Wait == SplitOff && len(u.Rows) == 1 }

// MayTake returns how long the function may take before it is abandoned. The timeout may be the longest duration.
func (u *Unit) MayTake(grace time.Duration) time.Duration {
	return u.Def.Timeout + min(grace, math.MaxInt64-u.Def.Timeout)
}

// bytesOfUnit is about how many bytes a unit takes without its rows.
const bytesOfUnit = 1000

// Bytes returns about how many bytes the unit takes while it waits.
func (u *Unit) Bytes() int64 {
	bytes := int64(bytesOfUnit)
	if u.Group != nil {
		bytes += int64(8 * len(u.Group.Members))
	}
	for i := range u.Rows {
		bytes += row.SizeOf(&u.Rows[i])
	}
	return bytes
}

// IDs returns the sorted ids of the rows.
func (u *Unit) IDs() []int64 {
	ids := make([]int64, len(u.Rows))
	for i := range u.Rows {
		ids[i] = u.Rows[i].ID
	}
	slices.Sort(ids)
	return ids
}

// Claimed returns the ids of the unit's rows that are in the claim.
func (u *Unit) Claimed() []int64 {
	if u.Group != nil {
		return u.Group.Members
	}
	return u.IDs()
}

// SetRows sets the rows of a group, and the job of each. Without jobs, all rows are of the job of the unit.
func (u *Unit) SetRows(rows []jobs.FutureJob, of []Job) { u.Rows, u.mixed = rows, mixed{jobs: of} }

// Judge returns the rows that the function gets: those that may be checked now, by the options of the job of each. A
// call of a group gets rows of several jobs, and rows of other pages.
func (u *Unit) Judge(m guard.Moment) (called []jobs.FutureJob) {
	u.mixed.unchecked, called = nil, make([]jobs.FutureJob, 0, len(u.Rows))
	for i := range u.Rows {
		v, checks := guard.Before(jobOf(u, i).Def, m)
		if checks {
			called = append(called, u.Rows[i])
			continue
		}
		if u.mixed.unchecked == nil {
			u.mixed.unchecked = make([]*guard.Verdict, len(u.Rows))
		}
		u.mixed.unchecked[i] = &v
	}
	return called
}

// Keep drops all rows but those with the ids, and reports whether any is left. It keeps all if none is.
func (u *Unit) Keep(ids map[int64]bool) bool {
	rows := slices.DeleteFunc(slices.Clone(u.Rows), func(row jobs.FutureJob) bool { return !ids[row.ID] })
	if len(rows) > 0 {
		u.SetRows(rows, nil)
	}
	return len(rows) > 0
}

// Brief fills in what the rows tell the function about their check.
func (u *Unit) Brief(m guard.Moment) {
	for i := range u.Rows {
		u.Rows[i].Slot, u.Rows[i].CaughtUp = m.Slot, m.Misses(jobOf(u, i).Def)
		u.Rows[i].Lateness = max(0, m.Now.Sub(m.Slot))
	}
}

// Follows reports whether the check of a unit may begin with the commit of the check before it: both have one row and a
// transaction, in the same database.
func (u *Unit) Follows(before *Unit) bool {
	return u.Verdict == nil && u.Wait == Untried && u.Def.InTx() && !u.Def.Batched() && u.Def.DB == before.Def.DB
}

// Copy returns a unit with the same rows. The function of an abandoned call may go on with the unit itself.
func (u *Unit) Copy() *Unit {
	return &Unit{Def: u.Def, Number: u.Number, Rows: u.Rows, mixed: u.mixed}
}

// What is kept of a check's times, in history: with more, no two rows would be alike. See admin.HistoryRow.
const (
	latenessUnit = 100 * time.Millisecond
	durationUnit = time.Millisecond // of a row that was checked alone
)

// Outcomes returns what becomes of the rows after a call that took a while, by the results of the
// call, which has one for each row that the function gets. err is the error of every row. It logs the panics among the
// errors.
func (u *Unit) Outcomes(
	ctx context.Context, m guard.Moment, results []jobs.Result, err error, took time.Duration, panics *Panics,
) []row.Outcome {
	verdicts := make([]guard.Verdict, len(u.Rows))
	called := 0
	for i := range u.Rows {
		if v := u.mixed.verdict(i); v != nil {
			verdicts[i] = *v
			continue
		}
		result := jobs.Result{Err: err}
		if err == nil {
			result = results[called]
		}
		called++
		if result.Err != nil && errors.Is(context.Cause(ctx), ErrTimeout) {
			result.Err = fmt.Errorf("%w after %s: %w", ErrTimeout, u.Def.Timeout, result.Err)
		}
		if p, ok := errors.AsType[*jobs.PanicError](result.Err); ok {
			panics.Check(ctx, jobOf(u, i).Def.Name, u.Rows[i].Key().String(), p.Value, p.Stack)
		}
		verdicts[i] = guard.After(jobOf(u, i).Def, m, &u.Rows[i], result.Next, result.Err)
		verdicts[i].Payload = result.Payload
		if result.Err == nil {
			verdicts[i].Enqueue = result.Enqueue
		}
	}
	return u.outcomes(m, verdicts, called, took)
}

// Unchecked returns what becomes of the rows if the function is not called.
func (u *Unit) Unchecked(m guard.Moment, v guard.Verdict) []row.Outcome {
	return u.outcomes(m, slices.Repeat([]guard.Verdict{v}, len(u.Rows)), 0, 0)
}

// outcomes returns an outcome for each row, of which the function got some. These share the run time of the call.
func (u *Unit) outcomes(m guard.Moment, verdicts []guard.Verdict, called int, took time.Duration) []row.Outcome {
	if len(u.Rows) == 1 {
		took = took.Round(durationUnit)
	}
	took = (took / time.Duration(max(1, called))).Truncate(time.Microsecond)
	list := make([]row.Outcome, len(u.Rows))
	for i := range u.Rows {
		r := &u.Rows[i]
		job := jobOf(u, i)
		guard.Follow(job.Def, m, r, &verdicts[i])
		list[i] = row.Outcome{
			ID: r.ID, Number: job.Number, Verdict: &verdicts[i],
			Lateness: r.Lateness.Truncate(latenessUnit),
		}
		if called > 0 && u.mixed.verdict(i) == nil {
			list[i].Ran, list[i].Duration = true, took
		}
	}
	return list
}
