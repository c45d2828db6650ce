package grid

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// Hash is the number by which Place tells keys apart, from 0 up to 2^60: the first 60 bits of the
// SHA-256 of a text.
func Hash(text string) int64 {
	sum := sha256.Sum256([]byte(text))
	return int64(binary.BigEndian.Uint64(sum[:8]) >> 4)
}

// Place returns, in UTC, the slot for something that is asked for at an instant, where any slot
// will do from the first one at or after it up to, but not including, the instant that is `within`
// after it. Which of them follows from the hash alone, so that it is the same each time, and many
// hashes are spread evenly. A slot before earliest, which is a slot, is none to choose: who would
// have had one is spread over those that are left, and the others stay. Where none is left, and
// where `within` is too short for a slot, it is the first slot at or after both instants. The
// function prescient.place of the database returns the same.
func (g Grid) Place(at time.Time, within time.Duration, earliest time.Time, hash int64) time.Time {
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
