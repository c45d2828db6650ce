package daemon

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
)

// state is what the loop, the runs beside it, the watchdog and the HTTP server share.
type state struct {
	stop context.CancelFunc // ends the loop
	work sync.WaitGroup     // what runs beside the loop
	wake chan struct{}      // ends the loop's pause

	mu     sync.Mutex
	turned time.Time // local monotonic instant at which the loop last came round
	ready  bool      // the database has answered once
	failed error     // what Run returns

	down      error     // of the last question to the database
	downSince time.Time // local monotonic instant
	failures  int       // questions in a row without an answer

	grid     grid.Grid
	current  time.Time          // the slot that has begun last, by the last answer; zero before the first
	entered  time.Time          // local monotonic instant at which the one after it begins
	boundary time.Time          // the same, of the next slot that begins while the database does not answer
	running  map[time.Time]bool // slots whose run goes on
	done     time.Time          // the last slot that a run has found done
	late     time.Time          // current, while it waits for the run of another; else zero
	last     *slots.Result      // of the last run that ended; nil before the first
	lastErr  error
	warned   map[string]time.Time // when a job's name, of one that is not registered, was last logged

	catchUp catchUpState

	looking singleflight.Group
	looked  time.Time // local monotonic instant of the last look at the ledger
	found   []string  // what was wrong then
}

func newState() state {
	return state{wake: make(chan struct{}, 1), turned: monotonic(), running: map[time.Time]bool{}, warned: map[string]time.Time{}}
}

// enter keeps which slot has begun and how long it is to the next, and counts those that began without a run.
func (s *state) enter(g grid.Grid, slot time.Time, next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.current.IsZero() && slot.After(s.current) {
		s.catchUp.missed += int64(slot.Sub(s.current)/g.Width()) - 1
		if s.late.Equal(s.current) {
			s.catchUp.missed++
		}
	}
	if !slot.Equal(s.current) {
		s.late = time.Time{}
	}
	s.grid, s.current = g, slot
	s.entered = monotonic().Add(next)
	s.boundary = s.entered
}

// busy returns the slots whose run goes on, in order. Call it with mu held.
func (s *state) busy() []time.Time {
	return slices.SortedFunc(maps.Keys(s.running), time.Time.Compare)
}

func (s *state) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// alive tells whether the loop has come round within patience.
func (s *state) alive(patience time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.turned) < patience
}
