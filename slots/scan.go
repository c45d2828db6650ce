package slots

import (
	"context"
	"sync"
	"time"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

const (
	// pagesInFlight bounds the rows in memory: read, being checked, or waiting to be recorded.
	pagesInFlight = 4
	// allShards is more than any slot has.
	allShards = 1 << 15
	// writers is how many transactions record at once, so that reading overlaps writing; more gives nothing.
	writers = 2
	// settleTries and settleEvery bound how long a run waits for transactions from before its slot was opened.
	settleTries = 10
	settleEvery = 10 * time.Millisecond
	// maxDelay bounds what a busy machine waits before a claim: it may be the only one.
	maxDelay = 10 * time.Second
	// closingTime bounds what a run still does in the database after it was stopped.
	closingTime = 10 * time.Second
)

// scan is one runner's work on one open slot: a reader (loop) that claims shards and hands out their rows, a
// goroutine for each row being checked, two writers, and the heartbeat.
type scan struct {
	*Runner
	ledger *ledger
	sel    selection

	stop   context.Context // the caller's: when it ends, the run stops
	work   context.Context // of the statements; goes on after stop, until everything is recorded
	checks context.Context // of the checks; goes on after stop, for the grace period

	cancelWork   context.CancelCauseFunc
	cancelChecks context.CancelCauseFunc

	grouped []string // the jobs that are checked by group

	wake chan struct{} // tells the reader that something changed

	mu     sync.Mutex
	ready  *sync.Cond // tells writers that outcomes may be due
	shards map[int16]*shard
	lanes  map[string]*lane

	workers     *gate                // of every check
	connections *gate                // of the checks with a transaction
	gates       []*gate              // these, and those of the limited lanes
	running     map[*flight]struct{} // checks that were started and are not settled

	flying  map[int64]*shard // rows handed out and not recorded yet, by id
	pending []outcome        // of them those that wait for a writer
	oldest  time.Time        // when the first of them came
	free    int              // of them those in lanes without a limit: what the bound on memory counts
	out     int              // of them those whose outcome is not known yet
	batch   int              // rows that are recorded at once
	byID    bool             // record no ranges of rows

	looked  time.Time // when this runner last looked whether others ask for shards
	asked   int64     // how often they had
	gave    time.Time // when this runner last gave shards up
	askedAt time.Time // when it last asked itself

	pages   int   // how many were handed out
	cleared int   // how often a busy lane got room again
	taken   int64 // rows handed out in all, for the limit
	closing bool  // shards are being closed
	done    bool  // the slot is
	stopped bool  // hand out and start no more checks
	ended   bool  // take no more outcomes
	err     error // the first failure that ended the run
	result  Result

	beside sync.WaitGroup // goroutines that close shards, or wait for rows locked elsewhere
}

// shard is a claimed shard. Its fields are guarded by scan.mu.
type shard struct {
	claim
	ctx        context.Context // of its checks; ends when the lease is lost
	cancel     context.CancelCauseFunc
	until      time.Time // local monotonic instant before which the lease does not end
	after      int64     // id of the last row read in this pass
	ids        []int64   // of the rows read last in this pass, in order
	filtered   bool      // this pass has left out rows of some jobs
	groups     bool      // this pass has come to the rows of groups, which are read in the order of groups
	afterGroup string    // last group read in this pass
	passed     bool      // this pass has read to the end
	busy       bool      // this pass left rows of busy lanes for the next
	cleared    int       // scan.cleared when this pass began
	flying     int       // its rows handed out and not recorded yet
	left       bool      // rows that this pass has read may still be in the slot
	leaving    bool      // it is set apart for another runner, and read no more
	closing    bool      // it is being closed: its lease row may be gone
	resting    bool      // this run is through with it, but rows are left on purpose
}

// lane is the rows of one job. One with limited concurrency keeps few rows waiting; its further rows stay in the
// database until there is room, so that it holds up nothing else.
type lane struct {
	name   string
	jobs   []string // one, or those of a group family
	def    *jobs.Definition
	gates  []*gate // what its checks must pass: its own limit, that of connections, that of workers
	flying int     // guarded by scan.mu
	busy   bool    // a row was turned away; guarded by scan.mu
}

// limited tells whether the job has a limit of its own.
func (l *lane) limited() bool { return l.def.Concurrency > 0 }

func (s *scan) gate(limit int) *gate {
	g := &gate{limit: limit}
	s.gates = append(s.gates, g)
	return g
}

func newScan(ctx context.Context, r *Runner, l *ledger, sel selection, result Result) *scan {
	s := &scan{
		Runner: r, ledger: l, sel: sel, result: result, stop: ctx,
		wake:    make(chan struct{}, 1),
		looked:  monotonic(),
		batch:   r.cfg.Page,
		shards:  map[int16]*shard{},
		lanes:   map[string]*lane{},
		flying:  map[int64]*shard{},
		running: map[*flight]struct{}{},
	}
	s.workers, s.connections = s.gate(r.cfg.Workers), s.gate(r.cfg.Connections)
	for def := range r.cfg.Registry.All() {
		if def.Grouped() {
			s.grouped = append(s.grouped, def.Name)
		}
	}
	s.ready = sync.NewCond(&s.mu)
	s.work, s.cancelWork = context.WithCancelCause(context.WithoutCancel(ctx))
	s.checks, s.cancelChecks = context.WithCancelCause(s.work)
	return s
}

// run does the whole scan and leaves nothing behind but abandoned checks. The result is a copy, which they cannot
// reach.
func (s *scan) run() (Result, error) {
	defer s.cancelWork(nil)
	defer context.AfterFunc(s.stop, s.halt)()

	var recording, beating sync.WaitGroup
	for range writers {
		recording.Go(s.write)
	}
	beats, stopBeats := context.WithCancel(s.work)
	beating.Go(func() { s.beat(beats) })
	beating.Go(func() { s.watch(beats) })

	done, err := s.loop()
	if err != nil {
		s.fail(err)
	}
	s.drain()
	recording.Wait()
	s.beside.Wait()
	stopBeats()
	beating.Wait()
	s.handBack()
	return s.finish(done)
}

// loop reads and hands out rows until the slot is done, nothing is left for this runner, or the run is stopped.
func (s *scan) loop() (done bool, err error) {
	took := false                       // this runner has had a share in the slot
	leaves := monotonic().Add(s.stay()) // unless it has had one
	for !s.isStopped() {
		if s.isDone() {
			return true, nil
		}
		if err := s.share(); err != nil {
			return false, err
		}
		step := func() (bool, error) { return false, nil }
		switch {
		case s.mayRead():
			step = s.read
		case s.mayClose():
			step = s.close
		default:
			claimed, err := s.claim()
			if err != nil {
				return false, err
			}
			took = took || claimed
			switch {
			case claimed:
			case s.holds():
				s.wait(lookEvery)
			case !took && monotonic().After(leaves) || s.rests():
				return false, nil // all is with other runners, or rows are left on purpose
			default:
				step = s.standBy
			}
		}
		if done, err := step(); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

// wait returns when something changed, when the run is stopped, or after limit.
func (s *scan) wait(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-s.wake:
	case <-timer.C:
	case <-s.stop.Done():
	}
}

// halt stops the reader and the start of further checks; what runs goes on.
func (s *scan) halt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.dismiss(func(*flight) bool { return true })
	s.notify()
}

// fail halts the run for an error.
func (s *scan) fail(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	s.mu.Unlock()
	s.halt()
}

func (s *scan) isDone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done
}

func (s *scan) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// notify wakes the reader and the writers. Call it with mu held.
func (s *scan) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
	s.ready.Broadcast()
}

// drain waits for running checks, for the grace period at the most, and then lets the writers run out.
func (s *scan) drain() {
	s.halt()
	grace := time.NewTimer(s.cfg.Grace)
	defer grace.Stop()
	for waiting := true; waiting && s.busyChecks() > 0; {
		select {
		case <-s.wake:
		case <-grace.C:
			waiting = false
		}
	}
	s.mu.Lock()
	s.ended = true
	s.notify()
	s.mu.Unlock()
	s.cancelChecks(ErrStopped)
	if s.stop.Err() != nil {
		time.AfterFunc(closingTime, func() { s.cancelWork(ErrStopped) })
	}
}

func (s *scan) busyChecks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out
}

// handBack gives up the shards that are not done, so that others need not wait for their leases to end.
func (s *scan) handBack() {
	s.mu.Lock()
	var claims []claim
	for _, sh := range s.shards {
		claims = append(claims, sh.claim)
	}
	s.mu.Unlock()
	if len(claims) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(s.work, closingTime)
	defer cancel()
	if err := s.ledger.release(ctx, claims); err != nil {
		s.cfg.Logger.WarnContext(ctx, "shards were not handed back; others take them over when their leases end", "error", err)
	}
}

// finish turns how the scan ended into the run's result and error.
func (s *scan) finish(done bool) (Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done = done || s.done
	if done {
		s.result.State = StateDone
	}
	switch {
	case s.err != nil:
		return s.result, s.err
	case s.result.Abandoned > 0:
		return s.result, ErrAbandoned
	case s.stop.Err() != nil && !done:
		return s.result, ErrStopped
	}
	return s.result, nil
}

// retry repeats a statement while the database cannot be reached: a restart must not cost the slot, as long as the
// leases hold. Once they are lost, or the run is stopped for longer than closingTime, it returns the error.
func (s *scan) retry(statement func() error) error {
	pause := 50 * time.Millisecond
	for {
		err := statement()
		if err == nil || !pgsql.IsTransient(err) || s.work.Err() != nil || !s.leased() {
			return err
		}
		s.cfg.Logger.WarnContext(s.work, "the database does not answer; trying again", "error", err, "pause", pause)
		select {
		case <-time.After(pause):
		case <-s.work.Done():
			return err
		}
		pause = min(2*pause, 2*time.Second)
	}
}

// leased tells whether the run may go on without the database: it holds a lease that has time left.
func (s *scan) leased() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.shards) > 0 && !s.ended
}
