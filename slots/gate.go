package slots

import "slices"

// gate lets a limited number of flights through at a time; the others wait in order. It is guarded by scan.mu.
type gate struct {
	limit   int
	held    int
	waiting []*flight
}

// enter lets a flight through, or lets it wait.
func (g *gate) enter(f *flight) bool {
	if g.held >= g.limit {
		g.waiting = append(g.waiting, f)
		return false
	}
	g.held++
	return true
}

// leave makes room, and returns the flight that gets through instead; nil when none waits.
func (g *gate) leave() *flight {
	if len(g.waiting) == 0 {
		g.held--
		return nil
	}
	f := g.waiting[0]
	g.waiting[0] = nil
	g.waiting = g.waiting[1:]
	f.passed++
	return f
}

// advance takes a flight through the gates of its lane, one after the other, and tells whether it is behind the last:
// its check is to be started. Call it with mu held.
func (s *scan) advance(f *flight) bool {
	for ; f.passed < len(f.lane.gates); f.passed++ {
		if !f.lane.gates[f.passed].enter(f) {
			return false
		}
	}
	s.brief(f)
	f.begin(s.checks)
	f.started = monotonic()
	s.running[f] = struct{}{}
	return true
}

// start starts a check on a goroutine of its own, unless it has to wait at a gate. Call it with mu held.
func (s *scan) start(f *flight) {
	if s.advance(f) {
		go s.check(f)
	}
}

// release takes a flight back out of its gates, lets others through, and starts them. The last of them is returned
// instead, for the caller to go on with. Call it with mu held.
func (s *scan) release(f *flight) (next *flight) {
	delete(s.running, f)
	for _, g := range slices.Backward(f.lane.gates) {
		if waiting := g.leave(); waiting != nil && s.advance(waiting) {
			if next != nil {
				go s.check(next)
			}
			next = waiting
		}
	}
	return next
}

// dismiss lets go of flights that wait at gates; they will not start. Call it with mu held.
func (s *scan) dismiss(which func(f *flight) bool) {
	var gone []*flight
	for _, g := range s.gates {
		g.waiting = slices.DeleteFunc(g.waiting, func(f *flight) bool {
			if which(f) {
				gone = append(gone, f)
				return true
			}
			return false
		})
	}
	for _, f := range gone {
		for _, g := range slices.Backward(f.lane.gates[:f.passed]) {
			if waiting := g.leave(); waiting != nil {
				s.start(waiting)
			}
		}
		s.forget(f)
	}
}
