package outbox

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Position is the place of an event in the order of the outbox. The zero Position is before all
// events.
type Position struct {
	Mark   uint64 // of a transaction; see the migration of event_outbox
	Number int64  // among those of the same mark
}

// String returns the position as ParsePosition reads it, such as "7311-42".
func (p Position) String() string { return fmt.Sprintf("%d-%d", p.Mark, p.Number) }

func (p Position) compare(other Position) int {
	return cmp.Or(cmp.Compare(p.Mark, other.Mark), cmp.Compare(p.Number, other.Number))
}

// MarshalText is String, for JSON.
func (p Position) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// ParsePosition reads what String has written.
func ParsePosition(text string) (Position, error) {
	mark, number, ok := strings.Cut(text, "-")
	m, err1 := strconv.ParseUint(mark, 10, 64)
	n, err2 := strconv.ParseUint(number, 10, 63)
	p := Position{m, int64(n)}
	if !ok || err1 != nil || err2 != nil || p.String() != text {
		return Position{}, fmt.Errorf("%q is no position: want one that events tail prints, such as 7311-42", text)
	}
	return p, nil
}
