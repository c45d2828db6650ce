package turn

import "time"

// quick and slow are the times that checking a claim takes for the next claim to be larger, and smaller: a runner that
// has nothing to do should find something to claim, and a runner that dies should leave little.
const quick, slow = 250 * time.Millisecond, 2 * time.Second

// FirstSize is how many rows the first claim of a lane has.
func (s Spec) FirstSize(page int) int64 {
	if s.Whole {
		return int64(page)
	}
	return int64(min(page, 4*s.Places))
}

// NextSize is how many rows the claim has after one of size rows, whose checks took so long.
func (s Spec) NextSize(size int64, took time.Duration, page int) int64 {
	switch {
	case s.Whole:
		return size
	case took < quick:
		return min(4*size, int64(page))
	case took > slow:
		return max(size/2, 1)
	}
	return size
}
