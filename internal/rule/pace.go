package rule

import (
	"sync/atomic"
	"time"
)

// holdTime is how long the statements of a page may hold its rows. An application that writes to one of them waits so
// long, and for one statement more.
const holdTime = time.Second

// manyRows are more than a page has.
const manyRows = 100_000

// pace is how many rows the calls of a rule take, by how long statements took. It is safe for concurrent use. The zero
// value takes all.
type pace struct{ rows atomic.Int64 }

// takes returns how many of n rows a call takes.
func (p *pace) takes(n int) int {
	if most := p.rows.Load(); most > 0 {
		return min(n, int(most))
	}
	return n
}

// note notes how long the statements for some rows took. Fast ones let the next call take more.
func (p *pace) note(rows int, took time.Duration) {
	now := p.rows.Load()
	switch {
	case took > holdTime/2:
		now = max(1, int64(float64(rows)*float64(holdTime/2)/float64(took)))
	case took < holdTime/8 && now > 0:
		now = 4 * max(now, int64(rows))
	}
	if now > manyRows {
		now = 0
	}
	p.rows.Store(now)
}
