package unit

import (
	"errors"
	"math"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/prescient-go/prescient/internal/leave"
	"github.com/prescient-go/prescient/jobs"
)

// Failure decides whether a failed call is divided.
type Failure struct {
	Whole   bool // the call failed as a whole and is to be divided
	Crowded bool // it was not recorded, because another transaction has a lock
	Own     bool // the function itself returned the error, for each of its rows

	division *division // of the call that it is a part of; nil: it is no part of a call that failed
	level    int       // how often the rows of that call were halved
}

// division counts the failures of the parts of one call. It is safe for concurrent use.
type division struct {
	most time.Duration // that failed calls may take together

	mu    sync.Mutex
	spent time.Duration // by failed calls
	late  map[int]int   // calls that timed out, by level
	over  bool          // no part is divided any more
}

// Divisible reports whether the function may be called with each half of the rows instead.
func (u *Unit) Divisible() bool { return u.Def.Batched() && !u.Def.Grouped() && len(u.Rows) > 1 }

// FailedAsAWhole reports whether a call of several rows failed for a reason that one row may have caused: a timeout, a
// panic, the commit, a value that the server refuses. Another error that the function returned for all rows is not
// divided, because a service that is down would be called once for each row.
func (u *Unit) FailedAsAWhole(err error) bool {
	return err != nil && u.Divisible() && (!u.Failure.Own || errors.Is(err, jobs.ErrDivide))
}

// slowRows is how many rows that time out a division can find in a call. If more rows time out, the service itself
// hangs, and dividing would wait for it once for each row.
const slowRows = 3

// MayDivide notes a failed call, which took a while and may have timed out, and reports whether its halves may be
// called. They may not once the failures show more than slowRows rows that time out: more calls of a level timed out,
// or failed calls took longer together than the timeouts of so many rows.
func (u *Unit) MayDivide(took time.Duration, timedOut bool) bool {
	if u.Failure.division == nil {
		u.Failure.division = newDivision(u.Def.Timeout, len(u.Rows))
	}
	return u.Failure.division.goesOn(u.Failure.level, took, timedOut)
}

func newDivision(timeout time.Duration, rows int) *division {
	levels := time.Duration(slowRows * bits.Len(uint(rows)))
	return &division{most: levels * min(timeout, math.MaxInt64/levels), late: map[int]int{}}
}

func (d *division) goesOn(level int, took time.Duration, timedOut bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spent += took
	if timedOut {
		d.late[level]++
	}
	d.over = d.over || d.late[level] > slowRows || d.spent > d.most
	return !d.over
}

// Parts returns the units to call instead of one that was not done: the unit itself, or the halves
// of a batch whose call failed as a whole, or that could not be recorded because of a lock. A key
// that one of its rows enqueues may belong to an open transaction, and the other rows need not wait
// for it. A record without a reply is of all rows, so that one unit has it.
func (u *Unit) Parts() []*Unit {
	if u.Group != nil { // without the rows that its call read
		u.SetRows(u.one[:], nil)
		u.Group.Rest = nil
	}
	if !u.Failure.Crowded && !u.Failure.Whole || !u.Divisible() {
		return []*Unit{u}
	}
	var list []*Unit
	for rows := range slices.Chunk(u.Rows, (len(u.Rows)+1)/2) {
		list = append(list, &Unit{
			Def: u.Def, Number: u.Number, Rows: rows, Wait: u.Wait, Tried: Tried{canceled: u.Tried.canceled},
			Failure: Failure{division: u.Failure.division, level: u.Failure.level + 1},
		})
	}
	list[0].Tried.Unanswered = u.Tried.Unanswered
	return list
}

// Busy returns a unit of those rows that another transaction has locked. A record without a reply may be of them.
func (u *Unit) Busy(ids map[int64]bool) *Unit {
	busy := &Unit{Def: u.Def, Number: u.Number, Wait: Locked, Tried: Tried{Unanswered: u.Tried.Unanswered}}
	u.Tried.Unanswered = nil
	for i := range u.Rows {
		if ids[u.Rows[i].ID] {
			busy.Rows = append(busy.Rows, u.Rows[i])
		}
	}
	return busy
}

// SplitBusy divides the unit into one of the rows that another transaction has locked, and one of the others. Either
// may be nil.
func (u *Unit) SplitBusy(ids map[int64]bool) (busy, free *Unit) {
	rest := map[int64]bool{}
	for _, id := range u.IDs() {
		if !ids[id] {
			rest[id] = true
		}
	}
	switch len(rest) {
	case len(u.Rows):
		return nil, u
	case 0:
		u.Wait = Locked
		return u, nil
	}
	busy = u.Busy(ids)
	u.Keep(rest)
	return busy, u
}

// SplitLeft returns units of the rows that the function has left: one for each row that wants a call of its own, and
// one for those that are left to the next call. It drops these rows and their results from this unit, which may then
// have no rows. It returns no units if the function has left all rows to the next call, or if this call had only one.
func (u *Unit) SplitLeft(results []jobs.Result) (left []*Unit, kept []jobs.Result) {
	if u.Group != nil || len(u.Rows) == 1 {
		return nil, results
	}
	next := &Unit{Def: u.Def, Number: u.Number, Wait: SplitOff}
	var rows []jobs.FutureJob
	for i, r := range results {
		switch {
		case errors.Is(r.Err, leave.ErrAlone):
			alone := &Unit{Def: u.Def, Number: u.Number, Wait: SplitOff}
			alone.Rows = append(alone.one[:0], u.Rows[i])
			left = append(left, alone)
		case errors.Is(r.Err, leave.ErrToNext):
			next.Rows = append(next.Rows, u.Rows[i])
		default:
			rows, kept = append(rows, u.Rows[i]), append(kept, r)
		}
	}
	switch len(next.Rows) {
	case len(u.Rows):
		return nil, results
	case 0:
	default:
		left = append(left, next)
	}
	u.SetRows(rows, nil)
	return left, kept
}

// Rest returns the unit of the claim's rows that are not in the call of a group. Nil: all of them are.
func (u *Unit) Rest() *Unit {
	if u.Group == nil || len(u.Group.Rest) == 0 {
		return nil
	}
	rest := &Unit{Def: u.Def, Number: u.Number, one: u.one, Wait: Divided}
	rest.Group = &Group{Key: u.Group.Key, Members: u.Group.Rest}
	rest.Rows = rest.one[:]
	return rest
}
