package metrics

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/prescient-go/prescient/internal/forecast"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/health"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

const (
	// mostOverdue bounds the pairs of a job and a state whose overdue rows are told apart.
	mostOverdue = 100
	// patience is how long the database may take to answer, and other processes to write their
	// metrics file.
	patience = 5 * time.Second
	// ahead is how many slots are forecast. aheadSample bounds the blocks of history that a
	// forecast reads.
	ahead, aheadSample = 4, 100
)

// Source says which database to read. DB must be set; every other zero field means its default.
type Source struct {
	// DB gives one connection for a read.
	DB pgsql.Pool
	// Schema holds the tables. Defaults to "prescient".
	Schema string
	// Registry has the jobs of the binary. Their counters begin at 0, and their SLAs are known.
	// Without it, a job appears when it is first counted, and has no SLA.
	Registry *jobs.Registry
	// Now returns the instant that slots are compared with. Defaults to the database's clock.
	Now func() time.Time
	// Logger gets a warning when the database cannot be read. Defaults to slog.Default().
	Logger *slog.Logger

	next  time.Time       // the slot of the last forecast
	ahead []forecast.Slot // it and the slots after it; empty: there is no forecast
}

// Watch sets what Read reads.
func (m *Metrics) Watch(source Source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.source = &source
	if source.Registry != nil {
		for d := range source.Registry.All() {
			m.job(d.Name).sla = d.SLA
		}
	}
}

// Read reads the database and keeps the result for Collect. Concurrent calls share one read. It
// returns after at most five seconds, or when ctx ends. Without an answer it logs a warning, and
// there are no figures of the database.
func (m *Metrics) Read(ctx context.Context) {
	m.mu.Lock()
	source := m.source
	m.mu.Unlock()
	if source == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer := m.reads.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience) // other callers may wait for it, too
		defer cancel()
		return source.read(ctx)
	})
	var ledger *snapshot
	var err error
	select {
	case result := <-answer:
		ledger, _ = result.Val.(*snapshot)
		err = result.Err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		ledger = nil
		source.logger().WarnContext(ctx, "metrics of the database are missing", "error", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ledger = ledger
}

// snapshot holds what the database returned at one moment.
type snapshot struct {
	health.State
	claims   map[bool]int // by whether they are live
	outbox   []consumer
	blocking float64 // seconds
	next     []forecast.Slot
}

type consumer struct {
	name    string
	waiting int64
	oldest  float64 // seconds
}

func (s *Source) read(ctx context.Context) (*snapshot, error) {
	l, err := ledger.New(ctx, s.DB, s.Schema, s.Now)
	if err != nil {
		return nil, err
	}
	schema, err := pgsql.ParseSchema(s.Schema)
	if err != nil {
		return nil, err
	}
	r := &snapshot{claims: map[bool]int{}}
	err = pg.SnapshotTx(ctx, s.DB, func(tx *sqlx.Tx) error {
		set := fmt.Sprintf("set local statement_timeout = %d; %s", patience.Milliseconds(),
			pg.SlotIndexOnly.In(schema))
		if _, err := tx.ExecContext(ctx, set); err != nil {
			return err
		}
		if r.State, err = health.Read(ctx, l.In(reserved.Caller{}, tx), time.Time{}); err != nil {
			return err
		}
		return r.readOutbox(ctx, tx, schema)
	})
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	for _, c := range r.Claims {
		if len(c.Jobs) > 0 && (c.Live || c.Until != nil) { // others were handed back
			r.claims[c.Live]++
		}
	}
	r.next = s.lookAhead(ctx, l)
	return r, nil
}

// lookAhead forecasts the next slots, once for each slot, because it costs more than all the rest.
// After an error it also waits for the next slot.
func (s *Source) lookAhead(ctx context.Context, l *ledger.Ledger) []forecast.Slot {
	g := l.Grid()
	next := g.Next(l.Now())
	if next.Equal(s.next) {
		return s.ahead
	}
	ctx, cancel := context.WithTimeout(ctx, patience/2)
	defer cancel()
	f, err := forecast.Compute(ctx, forecast.Config{
		DB: s.DB, Schema: s.Schema, Now: s.Now, Registry: s.Registry, For: ahead * g.Width(), Sample: aheadSample,
	})
	if err != nil {
		s.logger().WarnContext(ctx, "metrics of the slots to come are missing", "error", err)
	}
	s.next, s.ahead = next, f.Slots
	return s.ahead
}

func (s *Source) logger() *slog.Logger {
	if s.Logger != nil {
		return s.Logger
	}
	return slog.Default()
}

func (r *snapshot) readOutbox(ctx context.Context, tx *sqlx.Tx, schema pgsql.Schema) (err error) {
	r.outbox, err = pg.Collect(ctx, tx, pg.MetricsOutbox.In(schema), nil, func(row *sql.Rows, c *consumer) error {
		return row.Scan(&c.name, &c.waiting, &c.oldest)
	})
	if err != nil {
		return err
	}
	return tx.QueryRowContext(ctx, pg.MetricsBlocking.In(schema)).Scan(&r.blocking)
}

// collect sends what was read.
func (r *snapshot) collect(gauge func(d *prometheus.Desc, value float64, labels ...string)) {
	if r == nil {
		gauge(databaseUp, 0)
		return
	}
	gauge(databaseUp, 1)
	gauge(slotWidth, r.Grid.Width().Seconds())
	gauge(slotBegan, unix(r.Current.Slot))
	lag := 0.0
	if oldest := r.Oldest(); !oldest.IsZero() {
		lag = max(0, r.Now.Sub(oldest).Seconds())
	}
	gauge(slotLag, lag)
	gauge(ledgerAhead, r.Ahead().Seconds())
	gauge(slotPlanned, float64(r.Current.Planned))
	gauge(slotChecked, float64(r.Current.Checked))
	gauge(slotFailed, float64(r.Current.Failed))
	missed, leftOpen, stragglers, running := r.Slots()
	gauge(unfinished, float64(missed), stateLabels[slots.StateMissed])
	gauge(unfinished, float64(leftOpen), stateLabels[slots.StateOpen])
	gauge(unfinished, float64(running), "running")
	gauge(unfinished, float64(stragglers), stateLabels[slots.StateDone])
	for of, n := range r.overdue() {
		gauge(overdue, float64(n), of.job, of.state)
	}
	gauge(claims, float64(r.claims[true]), "live")
	gauge(claims, float64(r.claims[false]), "expired")
	for _, c := range r.outbox {
		gauge(waiting, float64(c.waiting), c.name)
		gauge(oldest, c.oldest, c.name)
	}
	gauge(blocking, r.blocking)
	gauge(dead, float64(r.DeadLetters()))
	for i, slot := range r.next {
		gauge(forecastRows, float64(slot.Rows), strconv.Itoa(i+1))
		gauge(forecastTook, time.Duration(slot.Took).Seconds(), strconv.Itoa(i+1))
	}
}

// stateLabels are the values of the label state.
var stateLabels = map[slots.State]string{
	slots.StateMissed: "missed", slots.StateOpen: "left_open", slots.StateDone: "stragglers", health.StateDue: "due",
}

type jobState struct{ job, state string }

// overdue sums up the overdue rows by job and state. Beside the largest numbers, it sums up the rest of each state
// under no job.
func (r *snapshot) overdue() map[jobState]int64 {
	sums := map[jobState]int64{}
	for _, o := range r.Overdue() {
		sums[jobState{o.JobExec, stateLabels[o.State]}] += o.Waiting.N
	}
	largest := slices.SortedFunc(maps.Keys(sums), func(a, b jobState) int { // of equal numbers, always the same
		return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a.job, b.job), cmp.Compare(a.state, b.state))
	})
	for _, of := range largest[min(mostOverdue, len(largest)):] {
		sums[jobState{"", of.state}] += sums[of]
		delete(sums, of)
	}
	return sums
}
