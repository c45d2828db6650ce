package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/health"
	"github.com/prescient-go/prescient/slots/ledger"
)

// Health is the state of a daemon, which /healthz returns as JSON to senders that may read. Other
// senders get OK alone. Instants are in UTC.
type Health struct {
	// OK tells that there are no problems.
	OK bool `json:"ok"`
	// Problems describe in words what an operator should look at. Empty if all is well.
	Problems []string `json:"problems"`
	// Last is the run that ended last. Null before the first.
	Last *LastRun `json:"last"`
	// Running are the slots that this daemon is running.
	Running []time.Time `json:"running"`
	// Next is the next boundary. Null until the database has answered once.
	Next *time.Time `json:"next"`
	// Missed is how many slots began while this daemon could not run them, until catch-up is done.
	Missed int64 `json:"missed"`
	// CatchingUp reports whether catch-up is running.
	CatchingUp bool `json:"catching_up"`
}

// LastRun says what this daemon did for a slot.
type LastRun struct {
	Slot        time.Time   `json:"slot"`
	State       slots.State `json:"state"` // open: other runners work on it; empty: it could not be opened
	Planned     int64       `json:"planned"`
	Checked     int64       `json:"checked"`
	Finished    int64       `json:"finished"`
	Rescheduled int64       `json:"rescheduled"`
	Failed      int64       `json:"failed"`
	Seconds     float64     `json:"seconds"`
}

func (d *daemon) health() Health {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := Health{Problems: d.problems(), Running: d.busy(), Missed: d.catchUp.missed, CatchingUp: d.catchUp.going > 0}
	if d.stopping {
		h.Problems = append(h.Problems, stoppingText)
	}
	if h.Running == nil {
		h.Running = []time.Time{} // otherwise null in JSON
	}
	if !d.current.IsZero() {
		h.Next = new(d.grid.Next(d.current))
	}
	if r := d.last; r != nil {
		h.Last = &LastRun{r.Slot, r.State, r.Planned, r.Checked, r.Finished, r.Rescheduled, r.Failed, r.Took.Seconds()}
	}
	return h
}

const stoppingText = "the daemon is stopping"

// isReady reports whether it runs slots.
func (d *daemon) isReady() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ready && d.down == nil && !d.stopping
}

// isAlive reports whether its loop does not hang. A loop that has ended waits for checks, which may take
// their grace period.
func (d *daemon) isAlive() bool {
	d.mu.Lock()
	stopping := d.stopping
	d.mu.Unlock()
	return stopping || d.alive(d.patience)
}

// problems returns the problems of Health. Call it with mu held.
func (d *daemon) problems() []string {
	list := []string{}
	note := func(is bool, format string, args ...any) {
		if is {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	note(!d.ready && d.down == nil, "the database has not answered yet")
	note(d.down != nil, "the database cannot be used: %v", d.down)
	note(!d.late.IsZero(), "slot %s waits for the run of another: %s being run, which is the most at once",
		spoken.Instant(d.late), spoken.Count(len(d.running), "slot is", "slots are"))
	note(d.lastErr != nil, "the last run failed: %v", d.lastErr)
	note(d.catchUp.missed > 0, "%s without a run here, and catch-up has yet to come to %s",
		spoken.Count(d.catchUp.missed, "slot began", "slots began"), spoken.Noun(d.catchUp.missed, "it", "them"))
	note(d.catchUp.err != nil && !errors.Is(d.catchUp.err, slots.ErrStopped), "catch-up failed: %v", d.catchUp.err)
	return list
}

// findings adds the problems that the ledger shows. Concurrent requests share one read, and its
// result holds for lookAgain. A context does not end a read on a dead network, so findings waits for a
// read at most answerTimeout. Then it adds what the last read has found, and says how long ago that was
// if the new one takes longer than lookTimeout.
func (d *daemon) findings(ctx context.Context, h *Health) {
	d.mu.Lock()
	down := d.down != nil || !d.ready
	d.mu.Unlock()
	if down {
		return // which is a problem already
	}
	answer := d.looking.DoChan("", func() (any, error) {
		if last := d.lastLook(); last.at.IsZero() || time.Since(last.at) > lookAgain {
			d.lookAnew(context.WithoutCancel(ctx)) // other requests may wait for it, too
		}
		return nil, nil
	})
	select {
	case <-answer:
	case <-time.After(answerTimeout):
	}
	last := d.lastLook()
	h.Problems = append(h.Problems, last.found...)
	switch {
	case last.at.IsZero():
		h.Problems = append(h.Problems, "the state is unknown: the database has not answered yet")
	case !last.next.IsZero() && time.Since(last.next) > lookTimeout:
		h.Problems = append(h.Problems, fmt.Sprintf("the database has not answered for %s: the state is that of %s ago",
			time.Since(last.next).Truncate(time.Second), time.Since(last.at).Truncate(time.Second)))
	}
}

func (d *daemon) lastLook() look {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.looked
}

// lookAnew reads what the ledger shows. Concurrent calls share one read.
func (d *daemon) lookAnew(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	d.mu.Lock()
	d.looked.next = elapsed.Now()
	d.mu.Unlock()
	report, err := d.look(ctx)
	var found []string
	if err != nil {
		found = []string{fmt.Sprintf("the state is unknown: %v", err)}
	}
	for _, f := range report.Findings {
		found = append(found, f.Condition+": "+f.Text)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.looked = look{at: elapsed.Now(), found: found}
}

const (
	lookAgain   = 10 * time.Second
	lookTimeout = 5 * time.Second
	// answerTimeout bounds the wait of a request for a read.
	answerTimeout = 800 * time.Millisecond
)

func (d *daemon) look(ctx context.Context) (health.Report, error) {
	l, err := ledger.New(ctx, d.cfg.Runner.DB, d.cfg.Runner.Schema, d.cfg.Runner.Now)
	if err != nil {
		return health.Report{}, err
	}
	knows, err := l.Knows(ctx, d.cfg.Runner.Registry)
	if err != nil {
		return health.Report{}, err
	}
	return health.Check(ctx, l, time.Time{}, health.Thresholds{}, knows)
}

// guard refuses requests for another host name than [Hosts] returns.
func guard(names []string, listen string, next http.Handler) http.Handler {
	return web.Guard(Hosts(names, listen), "server.hosts", next)
}

// Hosts returns the names that a server answers to, besides localhost and addresses: the given
// ones, the one in the address that it listens on, and the machine's.
func Hosts(names []string, listen string) []string {
	names = slices.Clone(names)
	if host, _, err := net.SplitHostPort(listen); err == nil {
		names = append(names, host)
	}
	if machine, err := os.Hostname(); err == nil {
		names = append(names, machine)
	}
	return names
}

// serve starts the server if Config has an address. health serves /healthz, /readyz and /livez. The
// server goes on while the daemon stops; end stops it.
func (d *daemon) serve(ctx context.Context, health http.Handler) (end func(), err error) {
	if d.cfg.Listen == "" {
		return func() {}, nil
	}
	mux := http.NewServeMux()
	for _, path := range Paths() {
		mux.Handle(path, health)
	}
	if d.cfg.Handler != nil {
		mux.Handle("/", d.cfg.Handler)
	}
	if _, end, err = web.Listen(ctx, d.cfg.Listen, guard(d.cfg.Hosts, d.cfg.Listen, mux), d.log); err != nil {
		return nil, fmt.Errorf("serve health: %w", err)
	}
	return end, nil
}
