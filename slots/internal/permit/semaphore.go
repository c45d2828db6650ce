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

// gates are semaphores that a check enters one after the other.
type gates []Semaphore

func (g gates) enter(a, b context.Context) bool {
	for i, gate := range g {
		if !gate.Enter(a, b) {
			g[:i].leave()
			return false
		}
	}
	return true
}

func (g gates) leave() {
	for _, gate := range slices.Backward(g) {
		gate.Leave()
	}
}
