package permit

import (
	"context"
	"slices"
)

// Semaphore bounds how much is done at once.
type Semaphore chan struct{}

// Acquire waits for room. It returns false if one of the contexts ends first.
func (s Semaphore) Acquire(a, b context.Context) bool {
	select {
	case s <- struct{}{}:
		return true
	default:
	}
	select {
	case s <- struct{}{}:
		return true
	case <-a.Done():
	case <-b.Done():
	}
	return false
}

// Release makes room.
func (s Semaphore) Release() { <-s }

// semaphores are acquired one after the other.
type semaphores []Semaphore

func (list semaphores) acquire(a, b context.Context) bool {
	for i, s := range list {
		if !s.Acquire(a, b) {
			list[:i].release()
			return false
		}
	}
	return true
}

func (list semaphores) release() {
	for _, s := range slices.Backward(list) {
		s.Release()
	}
}
