package metrics

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/singleflight"

	"github.com/prescient-go/prescient/internal/locked"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/slots"
)

// wall is the clock that Prometheus compares timestamps with.
var wall = time.Now //nolint:forbidigo // not what slots are compared with

// Metrics holds the metrics of one process. It is a slots.Observer, and a prometheus.Collector for
// a registry of the caller's own. It is safe for concurrent use.
type Metrics struct {
	store string
	reads singleflight.Group

	mu     sync.Mutex
	source *Source
	ledger *snapshot // the last read; nil: the database did not answer, or was not asked

	jobs      map[string]*job
	runs      map[slots.Kind]*runs
	yielded   int64
	takenOver int
	lost      int
	abandoned int
	published int
	failed    int
}

// job holds the counts of one job.
type job struct {
	rows               map[jobs.Outcome]int64
	lateness, duration *histogram
	sla                time.Duration // 0: none
	late               int64         // checks that began later
}

// runs holds the counts of one kind of run.
type runs struct {
	ended         map[string]int64 // by result
	duration      *histogram
	last, success time.Time
	took          time.Duration // of the last one
}

// The values of the label result.
const (
	resultDone    = "done"    // the slot is done
	resultOpen    = "open"    // other runners work on the slot, or rows were left in it
	resultStopped = "stopped" // by a signal
	resultFailed  = "failed"
)

var (
	_ slots.Observer       = (*Metrics)(nil)
	_ prometheus.Collector = (*Metrics)(nil)
)

// New returns the metrics of a process that has done nothing yet.
func New() *Metrics { return NewStore("") }

// NewStore is New for one of several stores. Handler and WriteFile add its name as a label.
func NewStore(store string) *Metrics {
	return &Metrics{store: store, jobs: map[string]*job{}, runs: map[slots.Kind]*runs{}}
}

// Recorded counts rows.
func (m *Metrics) Recorded(list []slots.Recorded) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range list {
		j := m.job(r.JobExec)
		j.rows[r.Outcome] += r.Rows
		if r.Checked {
			j.lateness.add(r.Lateness, r.Rows)
			j.duration.add(r.Duration, r.Rows)
			if j.sla > 0 && r.Lateness > j.sla {
				j.late += r.Rows
			}
		}
	}
}

// ends are the outcomes of rows whose checks were recorded.
var ends = []jobs.Outcome{
	jobs.OutcomeDone, jobs.OutcomeFailed, jobs.OutcomeMaxChecks, jobs.OutcomeHorizon,
	jobs.OutcomePast, jobs.OutcomeDeadline, jobs.OutcomeSkipped,
	slots.Rescheduled, slots.Retried, slots.Deferred,
}

// job returns the counts of a job. All outcomes begin at 0, because Prometheus sees no increase from nothing. Call it
// with mu held.
func (m *Metrics) job(name string) *job {
	j, ok := m.jobs[name]
	if !ok {
		j = &job{
			rows: map[jobs.Outcome]int64{}, lateness: newHistogram(latenessBounds),
			duration: newHistogram(durationBounds),
		}
		for _, outcome := range ends {
			j.rows[outcome] = 0
		}
		m.jobs[name] = j
	}
	return j
}

// Ran counts a run.
func (m *Metrics) Ran(result slots.Result, err error) {
	m.mu.Lock()
	m.yielded += result.Yielded
	m.takenOver += result.TakenOver
	m.lost += result.Lost
	m.abandoned += result.Abandoned
	r := m.kind(result.Kind)
	r.ended[outcomeOf(result, err)]++
	r.duration.add(result.Took, 1)
	r.took = result.Took
	m.mu.Unlock()
	m.Ended(result.Kind, err)
}

// Ended records when work of a kind ended, and whether it succeeded. Ran does so for each slot.
// Call it for a command that found no slot to run, or failed before.
func (m *Metrics) Ended(kind slots.Kind, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.kind(kind)
	r.last = wall()
	if err == nil || locked.Only(err) {
		r.success = r.last
	}
}

// kind returns the runs of a kind. Call it with mu held.
func (m *Metrics) kind(kind slots.Kind) *runs {
	r, ok := m.runs[kind]
	if !ok {
		r = &runs{ended: map[string]int64{resultFailed: 0}, duration: newHistogram(runBounds)}
		m.runs[kind] = r
	}
	return r
}

func outcomeOf(result slots.Result, err error) string {
	switch {
	case errors.Is(err, slots.ErrStopped):
		return resultStopped
	case err != nil && !locked.Only(err):
		return resultFailed
	case result.State == slots.StateDone:
		return resultDone
	}
	return resultOpen
}

// Publisher returns a publisher that publishes through p and counts the events, those that the outbox gets. It also
// counts events of a transaction that is rolled back later.
func (m *Metrics) Publisher(p event.TxPublisher) event.TxPublisher {
	return event.WrapTx(p, func(ctx context.Context, events []event.Event, publish func(context.Context) error) error {
		err := publish(ctx)
		if err == nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.published += len(events)
		}
		return err
	})
}

// Destination returns a publisher that sends through p, and counts the events that p tried to send and did not. It does
// not count those that wait for their turn, or for which a stop left no time.
func (m *Metrics) Destination(p event.Publisher) event.Publisher {
	return event.Wrap(p, func(ctx context.Context, events []event.Event, publish func(context.Context) error) error {
		err := publish(ctx)
		if errors.Is(ctx.Err(), context.Canceled) {
			return err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, err := range event.Errors(err, len(events)) {
			if err != nil && !errors.Is(err, event.ErrThrottled) && !errors.Is(err, event.ErrBlocked) {
				m.failed++
			}
		}
		return err
	})
}

// register adds the metrics to a registry.
func (m *Metrics) register(registry prometheus.Registerer) error {
	if m.store != "" {
		registry = prometheus.WrapRegistererWith(prometheus.Labels{"store": m.store}, registry)
	}
	return registry.Register(m)
}

// Handler serves the metrics, and those of the Go runtime and the process. It reads the database
// for each request.
func (m *Metrics) Handler() http.Handler {
	g := NewGroup()
	g.Add(m)
	return g.Handler()
}

// Group holds the metrics of several stores of one process. It is safe for concurrent use.
type Group struct {
	registry *prometheus.Registry

	mu   sync.Mutex
	list map[string]*Metrics // by store
}

// NewGroup returns an empty group.
func NewGroup() *Group {
	g := &Group{registry: prometheus.NewRegistry(), list: map[string]*Metrics{}}
	g.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return g
}

// CountFailures adds prescient_authentication_failures_total, whose value failed returns.
func (g *Group) CountFailures(failed func() int64) {
	g.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "prescient_authentication_failures_total",
		Help: "Requests with a wrong token, or with any token from an address that had sent too many wrong ones.",
	}, func() float64 { return float64(failed()) }))
}

// Add adds the metrics of a store, or replaces those it has.
func (g *Group) Add(m *Metrics) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list[m.store] = m
}

// Remove removes the metrics of a store.
func (g *Group) Remove(store string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.list, store)
}

// Handler serves the metrics of all stores, and those of the Go runtime and the process. It reads
// the databases for each request.
func (g *Group) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		list := slices.Collect(maps.Values(g.list))
		g.mu.Unlock()
		of := prometheus.NewRegistry()
		var reading sync.WaitGroup
		for _, m := range list {
			if err := m.register(of); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			reading.Go(func() { m.Read(r.Context()) })
		}
		reading.Wait()
		promhttp.HandlerFor(prometheus.Gatherers{g.registry, of}, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	})
}
