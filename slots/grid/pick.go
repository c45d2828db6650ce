package grid

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// Hash returns the number by which PickSlot distinguishes keys: the first 60 bits of the SHA-256 of
// a text.
func Hash(text string) int64 {
	sum := sha256.Sum256([]byte(text))
	return int64(binary.BigEndian.Uint64(sum[:8]) >> 4)
}

// PickSlot returns a slot of a window, in UTC. The window has the slots from the first at or after
// at, before at + within. The hash alone decides which, so the slot is the same each time, and many
// hashes are spread evenly.
//
// earliest is a slot, and no slot before it is chosen. Hashes of earlier slots are spread over the
// slots that remain; the others keep theirs. If no slot remains, or if within is too short for one,
// PickSlot returns the first slot at or after both instants. The SQL function prescient.pick_slot
// returns the same.
func (g Grid) PickSlot(at time.Time, within time.Duration, earliest time.Time, hash int64) time.Time {
	first := g.Ceil(at)
	n := g.between(first, RoundMicro(at).Add(within))
	slot := first.Add(time.Duration(hash%n) * g.Width())
	if slot.Before(earliest) {
		left := max(n-int64(earliest.Sub(first)/g.Width()), 1)
		slot = earliest.Add(time.Duration(hash/n%left) * g.Width())
	}
	return slot
}

// between returns the number of slots from first on that are before end, and at least 1.
func (g Grid) between(first, end time.Time) int64 {
	return max(int64((end.Sub(first)+g.Width()-1)/g.Width()), 1)
}
