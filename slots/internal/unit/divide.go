package unit

import (
	"errors"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/prescient-go/prescient/jobs"
)

// Failure decides whether a failed call is divided.
type Failure struct {
	Whole   bool // the call failed as a whole and is to be divided
	Crowded bool // it was not recorded, because another transaction has a lock
	Own     bool // the function itself returned the error, for each of its rows

	division *division // of the call that it is a part of; nil: it is no part of a call that timed out
}

// division counts the timeouts of the parts of one call.
type division struct {
	timeouts atomic.Int64
	most     int64 // timeouts after which a call that times out is not divided
}

// Divisible reports whether the function may be called with each half of the rows instead.
func (u *Unit) Divisible() bool { return u.Def.Batched() && !u.Def.Grouped() && len(u.Rows) > 1 }

// FailedAsAWhole reports whether a call of several rows failed for a reason that one row may have caused: a timeout, a
// panic, the commit. An error that the function returned for all rows is not divided, because a service that is down
// would be called once for each row.
func (u *Unit) FailedAsAWhole(err error) bool {
	return err != nil && u.Divisible() && (!u.Failure.Own || errors.Is(err, jobs.ErrDivide))
}

// slowRows is how many rows that time out a division can find in a call. If more rows time out, the service itself
// hangs, and dividing would wait for it once for each row.
const slowRows = 3

// Hangs counts a timeout of a call, and reports whether there were too many to divide it.
func (u *Unit) Hangs() bool {
	d := u.Failure.division
	if d == nil {
		d = &division{most: slowRows * int64(bits.Len(uint(len(u.Rows))))}
		u.Failure.division = d
	}
	return d.timeouts.Add(1) > d.most
}

// Parts returns the units to call instead of one that was not done: the unit itself, or the halves
// of a batch whose call failed as a whole, or that could not be recorded because of a lock. A key
// that one of its rows enqueues may belong to an open transaction, and the other rows need not wait
// for it.
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
			Def: u.Def, Number: u.Number, Rows: rows, Waited: true, Failure: Failure{division: u.Failure.division},
		})
	}
	return list
}

// Busy returns a unit of those rows that another transaction has locked. A record without a reply may be of them.
func (u *Unit) Busy(ids map[int64]bool) *Unit {
	busy := &Unit{Def: u.Def, Number: u.Number, Waited: true, Tried: Tried{Lost: u.Tried.Lost}}
	u.Tried.Lost = nil
	for i := range u.Rows {
		if ids[u.Rows[i].ID] {
			busy.Rows = append(busy.Rows, u.Rows[i])
		}
	}
	return busy
}

// Rest returns the unit of the claim's rows that are not in the call of a group. Nil: all of them are.
func (u *Unit) Rest() *Unit {
	if u.Group == nil || len(u.Group.Rest) == 0 {
		return nil
	}
	rest := &Unit{Def: u.Def, Number: u.Number, one: u.one, Waited: true}
	rest.Group = &Group{Key: u.Group.Key, Members: u.Group.Rest}
	rest.Rows = rest.one[:]
	return rest
}
