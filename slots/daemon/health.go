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

	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/health"
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
	// CatchingUp tells whether catch-up is running.
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

func (d *daemon) health(stopping bool) Health {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := Health{Problems: d.problems(), Running: d.busy(), Missed: d.catchUp.missed, CatchingUp: d.catchUp.busy}
	if stopping {
		h.Problems = append(h.Problems, "the daemon is stopping")
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
		d.late.Format(time.RFC3339), spoken.Count(len(d.running), "slot is", "slots are"))
	note(d.lastErr != nil, "the last run failed: %v", d.lastErr)
	note(d.catchUp.missed > 0, "%s without a run here, and catch-up has yet to come to %s",
		spoken.Count(d.catchUp.missed, "slot began", "slots began"), spoken.Noun(d.catchUp.missed, "it", "them"))
	note(d.catchUp.err != nil && !errors.Is(d.catchUp.err, slots.ErrStopped), "catch-up failed: %v", d.catchUp.err)
	return list
}

// findings adds the problems that the ledger shows. Concurrent requests share one read, and its
// result holds for lookAgain. A context does not end a read on a dead network, so after lookTimeout
// the answer says that the database has not answered.
func (d *daemon) findings(ctx context.Context, h *Health) {
	d.mu.Lock()
	down := d.down != nil || !d.ready
	d.mu.Unlock()
	if down {
		return // which is a problem already
	}
	answer := d.looking.DoChan("", func() (any, error) {
		if d.looked.IsZero() || time.Since(d.looked) > lookAgain {
			d.lookAnew(context.WithoutCancel(ctx)) // other requests may wait for it, too
		}
		return d.found, nil
	})
	select {
	case result := <-answer:
		h.Problems = append(h.Problems, result.Val.([]string)...)
	case <-time.After(lookTimeout + time.Second): // if the context does end it
		h.Problems = append(h.Problems, fmt.Sprintf("the state is unknown: the database has not answered for %s", lookTimeout))
	}
}

// lookAnew reads what the ledger shows. Concurrent calls share one read.
func (d *daemon) lookAnew(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	report, err := d.look(ctx)
	d.looked, d.found = monotonic(), nil
	if err != nil {
		d.found = []string{fmt.Sprintf("the state is unknown: %v", err)}
	}
	for _, f := range report.Findings {
		d.found = append(d.found, f.Condition+": "+f.Text)
	}
}

const (
	lookAgain   = 10 * time.Second
	lookTimeout = 5 * time.Second
)

func (d *daemon) look(ctx context.Context) (health.Report, error) {
	ledger, err := slots.NewLedger(ctx, d.cfg.Runner.DB, d.cfg.Runner.Schema, d.cfg.Runner.Now)
	if err != nil {
		return health.Report{}, err
	}
	knows, err := ledger.Knows(ctx, d.cfg.Runner.Registry)
	if err != nil {
		return health.Report{}, err
	}
	return health.Check(ctx, ledger, time.Time{}, health.Limits{}, knows)
}

// writeHealth writes the state: all of it if mayRead, otherwise OK alone.
func writeHealth(w http.ResponseWriter, ok bool, all any, mayRead bool) {
	if !mayRead {
		all = map[string]bool{"ok": ok}
	}
	web.WriteHealth(w, ok, all)
}

// guard refuses requests for another host name than the given ones, the one in listen, and the
// machine's.
func guard(names []string, listen string, next http.Handler) http.Handler {
	names = slices.Clone(names)
	if host, _, err := net.SplitHostPort(listen); err == nil {
		names = append(names, host)
	}
	if machine, err := os.Hostname(); err == nil {
		names = append(names, machine)
	}
	return web.Guard(names, "server.hosts", next)
}

// handler serves /healthz, /readyz, /livez and, on every other path, Config.Handler.
func (d *daemon) handler(ctx context.Context) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		h := d.health(ctx.Err() != nil)
		d.findings(r.Context(), &h)
		h.OK = len(h.Problems) == 0
		writeHealth(w, h.OK, h, d.cfg.MayRead(r))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		d.mu.Lock()
		ready := d.ready && d.down == nil && ctx.Err() == nil
		d.mu.Unlock()
		web.WriteHealth(w, ready, map[string]bool{"ready": ready})
	})
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		alive := ctx.Err() != nil || d.alive(d.patience)
		web.WriteHealth(w, alive, map[string]bool{"alive": alive})
	})
	if d.cfg.Handler != nil {
		mux.Handle("/", d.cfg.Handler)
	}
	return guard(d.cfg.Hosts, d.cfg.Listen, mux)
}

// serve starts the server if Config has an address. The server goes on while the daemon stops; end
// stops it.
func (d *daemon) serve(ctx context.Context) (end func(), err error) {
	if d.cfg.Listen == "" {
		return func() {}, nil
	}
	if _, end, err = web.Listen(ctx, d.cfg.Listen, d.handler(ctx), d.log); err != nil {
		return nil, fmt.Errorf("serve health: %w", err)
	}
	return end, nil
}
