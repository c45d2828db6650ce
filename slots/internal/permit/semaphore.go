package permit

import (
	"context"
	"slices"
)

// Semaphore bounds how much is done at once.
type Semaphore chan struct{}

// Enter waits for room. It returns false if one of the contexts ends first.
func (s Semaphore) Enter(a, b context.Context) bool {
	if s.Try() {
		return true
	}
	select {
	case s <- struct{}{}:
		return true
	case <-a.Done():
	case <-b.Done():
	}
	return false
}

// Try enters if there is room. It does not wait.
func (s Semaphore) Try() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

// Leave makes room.
func (s Semaphore) Leave() { <-s }

// semaphores are entered one after the other.
type semaphores []Semaphore

func (list semaphores) enter(a, b context.Context) bool {
	for i, s := range list {
		if !s.Enter(a, b) {
			list[:i].leave()
			return false
		}
	}
	return true
}

func (list semaphores) leave() {
	for _, s := range slices.Backward(list) {
		s.Leave()
	}
}
