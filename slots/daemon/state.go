package daemon

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
)

// state is shared by the loop, the runs beside it, the watchdog and the HTTP server.
type state struct {
	stop context.CancelFunc // ends the loop
	work sync.WaitGroup     // the goroutines beside the loop
	wake chan struct{}      // ends the loop's pause

	mu     sync.Mutex
	turned time.Time // local monotonic instant of the loop's last turn
	ready  bool      // the database has answered once
	failed error     // what Run returns

	stopping bool // the loop has ended

	down      error     // of the last query
	downSince time.Time // local monotonic instant
	failures  int       // failed queries in a row

	grid     grid.Grid
	current  time.Time          // the newest slot that has begun, by the last answer; zero before the first
	entered  time.Time          // local monotonic instant at which the one after it begins
	boundary time.Time          // the same, for the next slot that begins while the database does not answer
	running  map[time.Time]bool // slots whose run goes on
	done     time.Time          // the last slot that a run found done
	late     time.Time          // current, while it waits for another run; else zero
	last     *slots.Result      // of the last run that ended; nil before the first
	lastErr  error
	warned   map[string]time.Time // when the name of an unregistered job was last logged

	catchUp catchUpState

	looking singleflight.Group
	looked  look
}

// look is the last read of the ledger for the health. Its instants are local and monotonic.
type look struct {
	at    time.Time // when it ended; zero: there was none
	found []string  // the problems it showed
	next  time.Time // when the read that goes on began; zero: none does
}

func newState() state {
	return state{
		wake: make(chan struct{}, 1), turned: elapsed.Now(), running: map[time.Time]bool{},
		warned: map[string]time.Time{},
	}
}

// enter records which slot has begun and how long it is to the next, and counts the slots that
// began without a run. It counts none when the width has changed: which slots began since the last
// call depends on when it changed.
func (s *state) enter(g grid.Grid, slot time.Time, next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g == s.grid && !s.current.IsZero() && slot.After(s.current) {
		s.catchUp.missed += int64(slot.Sub(s.current)/g.Width()) - 1
		if s.late.Equal(s.current) {
			s.catchUp.missed++
		}
	}
	if !slot.Equal(s.current) {
		s.late = time.Time{}
	}
	s.grid, s.current = g, slot
	s.entered = elapsed.Now().Add(next)
	s.boundary = s.entered
}

// busy returns the slots that are being run, in order. Call it with mu held.
func (s *state) busy() []time.Time {
	return slices.SortedFunc(maps.Keys(s.running), time.Time.Compare)
}

func (s *state) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// alive reports whether the loop's last turn is no longer ago than patience.
func (s *state) alive(patience time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.turned) < patience
}
