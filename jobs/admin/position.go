package admin

import (
	"fmt"
	"time"

	"github.com/prescient-go/prescient/slots/grid"
)

// Position is a place in a list: behind a row, also once that row has moved or ended. Rows that come
// or go before it do not shift it. The zero Position is the beginning of a list, and stands for its
// end.
type Position struct {
	at  time.Time // the slot of the row; in history, when it ended
	job int64     // its number; in history 0
	id  int64
}

// IsZero reports whether the position is the beginning or the end of a list.
func (p Position) IsZero() bool { return p == Position{} }

// At returns the slot of the row or, in history, the instant at which it ended.
func (p Position) At() time.Time { return p.at }

// String returns the position as ParsePosition reads it.
func (p Position) String() string {
	return fmt.Sprintf("%d_%d_%d", p.at.UnixMicro(), p.job, p.id)
}

// ParsePosition reads what String has written.
func ParsePosition(text string) (Position, error) {
	var micros int64
	var p Position
	_, err := fmt.Sscanf(text, "%d_%d_%d", &micros, &p.job, &p.id)
	p.at = time.UnixMicro(micros).UTC()
	if err != nil || p.at.Before(grid.Min()) || p.at.After(grid.Max()) || p.String() != text {
		return Position{}, fmt.Errorf("%q is not the position of a row: want the one that the page before gave", text)
	}
	return p, nil
}
