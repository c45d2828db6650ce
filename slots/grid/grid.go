// Package grid computes slots. It is pure: it has no clock and no database.
//
// A slot is an instant on a grid that starts at the Unix epoch and whose width divides 24 hours. So
// every midnight UTC is a slot, and no change of summer time touches the grid. With the default
// width the slots are the minutes 00, 15, 30 and 45.
//
//	g := grid.Default
//	g.Ceil(at)  // the first slot at or after an instant: when a check asked for at is due
//	g.Floor(at) // the slot a run at that instant works on
//
// Instants have the resolution of PostgreSQL, a microsecond; see [RoundMicro].
package grid

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"time"
)

// DefaultWidth is the distance between two slots if nothing else is set.
const DefaultWidth = 15 * time.Minute

// Default is the grid of DefaultWidth. It equals the zero Grid.
var Default = Grid{}

// Min returns the first instant that a check can be asked for. It is a slot of every grid.
func Min() time.Time { return time.Unix(0, 0).UTC() }

// Max returns the last instant that a check can be asked for. It is a slot of every grid.
func Max() time.Time { return time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC) }

// ErrWidth is returned for a width that cannot be a grid's.
var ErrWidth = errors.New("width must be a whole number of seconds that divides 24 h, from 1s to 24h " +
	"(such as 1m, 5m, 15m, 1h)")

// Grid is the set of all slots of one width. The zero value is the default grid. Grids compare with
// ==.
type Grid struct {
	seconds int64 // 0: DefaultWidth, so that Default and New(DefaultWidth) are equal
}

// New returns the grid of a width. Returns ErrWidth if there is none.
func New(width time.Duration) (Grid, error) {
	const day = 24 * time.Hour
	if width < time.Second || width > day || width%time.Second != 0 || day%width != 0 {
		return Grid{}, fmt.Errorf("%w: not %s", ErrWidth, width)
	}
	if width == DefaultWidth {
		return Default, nil
	}
	return Grid{seconds: int64(width / time.Second)}, nil
}

// Width returns the distance between two slots.
func (g Grid) Width() time.Duration { return time.Duration(g.step()) * time.Second }

// String returns the width, such as "15m0s".
func (g Grid) String() string { return g.Width().String() }

// Ceil returns the first slot at or after t, in UTC.
func (g Grid) Ceil(t time.Time) time.Time {
	t = RoundMicro(t)
	floor := g.Floor(t)
	if floor.Equal(t) {
		return floor
	}
	return floor.Add(g.Width())
}

// Floor returns the last slot at or before t, in UTC.
func (g Grid) Floor(t time.Time) time.Time {
	seconds := RoundMicro(t).Unix()
	past := seconds % g.step()
	if past < 0 {
		past += g.step()
	}
	return time.Unix(seconds-past, 0).UTC()
}

// Next returns the first slot after t, in UTC.
func (g Grid) Next(t time.Time) time.Time { return g.Floor(t).Add(g.Width()) }

// Previous returns the last slot before t, in UTC.
func (g Grid) Previous(t time.Time) time.Time { return g.Ceil(t).Add(-g.Width()) }

// Add returns the slot n slots after slot. A negative n goes back.
func (g Grid) Add(slot time.Time, n int) time.Time {
	return time.Unix(slot.Unix()+int64(n)*g.step(), 0).UTC()
}

// Contains reports whether t is a slot.
func (g Grid) Contains(t time.Time) bool { return g.Floor(t).Equal(t) }

// Between yields the slots from `from` up to but not including `to`, in order.
func (g Grid) Between(from, to time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		for slot := g.Ceil(from); slot.Before(to); slot = slot.Add(g.Width()) {
			if !yield(slot) {
				return
			}
		}
	}
}

func (g Grid) step() int64 {
	if g.seconds == 0 {
		return int64(DefaultWidth / time.Second)
	}
	return g.seconds
}

// Earlier returns the earlier of two instants.
func Earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Later returns the later of two instants.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// RoundMicro returns t as PostgreSQL stores it: in whole microseconds. The server reads the
// fraction of a second as a binary floating-point number and rounds a half to the even microsecond.
func RoundMicro(t time.Time) time.Time {
	fraction := math.RoundToEven(float64(t.Nanosecond()) / 1e9 * 1e6)
	return time.Unix(t.Unix(), int64(fraction)*int64(time.Microsecond)).UTC()
}
