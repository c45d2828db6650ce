package rule

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prescient-go/prescient/slots/grid"
)

// maxSpread bounds the slots of OverdueSpread.
const maxSpread = 10_000

// String returns "fire", "last", "skip", or such as "spread 8". Empty for the zero value.
func (o Overdue) String() string {
	if o.Policy == OverdueSpread {
		return fmt.Sprintf("%s %d", o.Policy, o.Slots)
	}
	return string(o.Policy)
}

// MarshalText is String.
func (o Overdue) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads the text of String.
func (o *Overdue) UnmarshalText(text []byte) error {
	policy, number, _ := strings.Cut(string(text), " ")
	*o = Overdue{Policy: OverduePolicy(policy)}
	var err error
	if number != "" || o.Policy == OverdueSpread {
		o.Slots, err = strconv.Atoi(strings.TrimSpace(number))
	}
	valid := o.Slots == 0
	switch o.Policy {
	case OverdueFire, OverdueLast, OverdueSkip:
	case OverdueSpread:
		valid = o.Slots >= 1 && o.Slots <= maxSpread
	default:
		valid = false
	}
	if err != nil || !valid {
		return fmt.Errorf("%q: want fire, last, skip, or spread and a number of slots up to %d, such as spread 8",
			text, maxSpread)
	}
	return nil
}

// decides returns the policy for rows that come late. The zero value is OverdueLast.
func (o Overdue) decides() OverduePolicy { return cmp.Or(o.Policy, OverdueLast) }

// FirstToCome returns the instant that divides the steps of a row that came to its rule at came. A step that is due
// before it had passed then: its slot had begun. Other steps were still to come.
func FirstToCome(slots grid.Grid, came time.Time) time.Time {
	if floor := slots.Floor(came); floor.Before(came) {
		return floor.Add(time.Microsecond)
	}
	return came
}

// Window returns the time over which OverdueSpread spreads rows.
func (o Overdue) Window(slots grid.Grid) time.Duration { return time.Duration(o.Slots) * slots.Width() }

// SlotFor returns the slot in which the steps of a row fire that had passed when it came to the rule. Those of
// OverdueSkip do not fire.
func (r Rule) SlotFor(slots grid.Grid, came time.Time, entityKey string) time.Time {
	next := slots.Next(came)
	if r.Overdue.Policy != OverdueSpread {
		return next
	}
	hash := grid.Hash(strings.Join([]string{r.Name, r.Entity, entityKey, ""}, "\x1f"))
	return slots.PickSlot(next, r.Overdue.Window(slots), next, hash)
}

// ever reports whether a step ever fires for a row.
func (t *Timing) ever(since time.Time) bool {
	for i := range t.steps {
		if first, err := t.Nth(i, since, 1); err == nil && first.Number > 0 {
			return true
		}
	}
	return false
}

// LastBefore returns the last occurrence of all steps before an instant, and the index of its step. Of two at the same
// instant, it is that of the later step. It returns no occurrence if there is none.
func (t *Timing) LastBefore(since, at time.Time) (step int, last Occurrence) {
	for i := range t.steps {
		o, _, err := t.Around(i, since, at.Add(-1))
		if err == nil && o.Number > 0 && !o.At.Before(last.At) {
			step, last = i, o
		}
	}
	return step, last
}
