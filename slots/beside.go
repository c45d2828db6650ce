package slots

import (
	"cmp"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/claim"
	"github.com/prescient-go/prescient/slots/internal/lane"
	"github.com/prescient-go/prescient/slots/internal/permit"
	"github.com/prescient-go/prescient/slots/internal/record"
)

// beside is what a run shares with the runs beside it: those of one catch-up have the bounds of one run. It is safe for
// concurrent use.
type beside struct {
	bounds  *lane.Bounds
	writing *record.Writing
	turn    chan struct{} // see claim.Session
	inside  permit.Inside
}

func newBeside(c *Config) *beside {
	return &beside{
		bounds:  lane.NewBounds(c.Workers, c.Connections, c.Shared.Workers, c.Shared.Connections),
		writing: record.NewWriting(c.Page), turn: make(chan struct{}, 1),
	}
}

const (
	// patience is how long a run waits for locks, permits or limits of jobs alone before other slots may go on without
	// it. By then the log has named the session that has a lock; see db.RowWait.
	patience = 7 * time.Second
	// mostLead is how long before the next slot a run leaves locked rows at the latest: a timer of systemd starts no run
	// beside another.
	mostLead = 30 * time.Second
)

// lull notes since when a run has nothing to start, apart from rows that wait for the limit of their own job, and since
// when it waits for locks alone. The goroutine that claims uses it. Its instants are local and monotonic, and zero if
// it does not.
type lull struct {
	since, locked time.Time
	leaves        time.Time // when Run leaves locked rows, on the clock that slots are compared with
}

// look looks whether the run has anything to start. If it has nothing, the next slot of a catch-up begins. If it only
// has rows that wait for the limit of their own job, which may take long, the next slot begins after patience. look
// returns an error if the run must leave the rows that it waits for.
func (l *lull) look(r *run) error {
	now := elapsed.Now()
	starting := r.tasks.starting()
	if !r.lanes.IsFull() {
		starting = append(starting, r.lanes.Waiting(now)...)
	}
	if slices.ContainsFunc(starting, func(l *lane.Lane) bool { return l.Scarce != 0 }) {
		*l = lull{}
		return nil
	}
	l.since = cmp.Or(l.since, now)
	// A job with a limit goes through the slots in order if it is quick, because the permits are those of a run.
	limited := len(starting) > 0 || r.tasks.isLimited() || r.lanes.IsPaused(now)
	if !limited || now.Sub(l.since) >= patience {
		r.sel.letNext()
	}
	if len(starting) > 0 || !r.tasks.isLocked() {
		l.locked = time.Time{}
		return nil
	}
	if l.locked.IsZero() {
		l.locked, l.leaves = now, r.leavesAt()
	}
	if r.sel.untilNext && r.Now().Before(l.leaves) || !r.sel.untilNext && now.Sub(l.locked) < patience {
		return nil
	}
	stays, err := r.waitsForPermit(now)
	if stays || err != nil {
		l.locked = time.Time{}
		return err
	}
	return ErrLocked
}

// waitsForPermit reports whether rows wait for a permit that other runs have, and are in no claim of another runner.
func (r *run) waitsForPermit(now time.Time) (waits bool, err error) {
	if !r.lanes.IsPaused(now) || r.lanes.IsFull() || r.lanes.IsLimitReached() || r.sel.byHand {
		return false, nil
	}
	list, err := r.session.ListJobs(r.registered())
	return slices.ContainsFunc(list, func(j claim.Job) bool { return j.Claimable && r.lanes.Of(j.Number) != nil }), err
}

// leavesAt returns when a run leaves rows that are locked from now on: shortly before the next slot begins.
func (r *Runner) leavesAt() time.Time {
	now, width := r.Now(), r.Grid().Width()
	at := r.Grid().Next(now).Add(-min(mostLead, width/4))
	if soon := now.Add(min(patience, width/4)); at.Before(soon) {
		return soon
	}
	return at
}
