package turn

import "time"

// The next claim is larger if the checks of a claim took less than quick, and smaller if they took more
// than slow: an idle runner should find rows to claim, and a runner that dies should leave few.
const quick, slow = 250 * time.Millisecond, 2 * time.Second

// FirstSize returns the rows of the first claim of a lane.
func (s Spec) FirstSize(page int) int64 {
	if s.Whole {
		return int64(page)
	}
	return int64(min(page, 4*s.Places))
}

// NextSize returns the rows of the claim after one of size rows, whose checks took a while.
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
