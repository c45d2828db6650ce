package metrics_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/ledger"
	"github.com/prescient-go/prescient/slots/metrics"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// noon is when every test begins. The ledger begins at the slot after it.
var noon = time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)

// slot returns the n-th slot after noon.
func slot(n int) time.Time { return grid.Default.Add(noon, n) }

// world is a database of its own, the jobs "ok", "again" and "fail", and the metrics of one
// process.
type world struct {
	t        *testing.T
	db       *sqlx.DB
	now      time.Time
	registry *jobs.Registry
	client   *jobs.Client
	metrics  *metrics.Metrics
}

func setup(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, db: pgtest.New(t), now: noon, registry: jobs.NewRegistry()}
	w.registry.Register("ok", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }), jobs.SLA(5*time.Second))
	w.registry.Register("again", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		return slices.Repeat([]jobs.Result{{Next: new(batch[0].Slot.Add(24 * time.Hour))}}, len(batch)), nil
	}))
	w.registry.Register("fail", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) {
		return nil, errors.New("the warehouse does not answer")
	}), jobs.Retry(0))
	var err error
	if w.client, err = jobs.NewClient(t.Context(), w.db, jobs.Config{Now: w.clock}); err != nil {
		t.Fatal(err)
	}
	ledger, err := ledger.New(t.Context(), w.db, "", w.clock)
	if err == nil {
		err = ledger.Begin(t.Context(), slot(1))
	}
	if err != nil {
		t.Fatal(err)
	}
	w.process()
	return w
}

func (w *world) clock() time.Time { return w.now }

// process starts another process.
func (w *world) process() {
	w.metrics = metrics.New()
	w.metrics.Watch(metrics.Source{DB: w.db, Registry: w.registry, Now: w.clock, Logger: slog.New(slog.DiscardHandler)})
}

func (w *world) enqueue(job string, at time.Time, n int) {
	w.t.Helper()
	for i := range n {
		check := jobs.Request{JobExec: job, EntityName: "order", EntityKey: fmt.Sprint(i)}
		check.CheckAt = at
		if _, err := w.client.Enqueue(w.t.Context(), jobs.OwnTx(w.db), check); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) runner() *slots.Runner {
	w.t.Helper()
	r, err := slots.NewRunner(w.t.Context(), slots.Config{
		DB: w.db, Registry: w.registry, Now: w.clock, Observer: w.metrics, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// run steps the clock to a slot and runs it.
func (w *world) run(at time.Time) {
	w.t.Helper()
	w.now = at
	if _, err := w.runner().Run(w.t.Context(), at); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	if _, err := w.db.ExecContext(w.t.Context(), query, args...); err != nil {
		w.t.Fatal(err)
	}
}

// publish publishes n events to the outbox, through the metrics.
func (w *world) publish(n int) {
	w.t.Helper()
	var events []event.Event
	for i := range n {
		events = append(events, event.Event{ID: fmt.Sprint(i), Source: "test", Type: "test"})
	}
	to := w.metrics.Publisher(outbox.New(w.db, ""))
	err := pgsql.InTx(w.t.Context(), w.db, func(tx *sqlx.Tx) error { return to.PublishTx(w.t.Context(), tx, events) })
	if err != nil {
		w.t.Fatal(err)
	}
}

// scrape returns what the daemon serves at /metrics.
func (w *world) scrape() []byte {
	w.t.Helper()
	recorder := httptest.NewRecorder()
	w.metrics.Handler().ServeHTTP(recorder, httptest.NewRequestWithContext(w.t.Context(), "GET", "/metrics", nil))
	if recorder.Code != 200 {
		w.t.Fatalf("status %d: %s", recorder.Code, recorder.Body)
	}
	return recorder.Body.Bytes()
}

// samples holds values by name and labels, such as prescient_unfinished_slots{state="missed"}. A
// histogram has the values of _count and _sum.
type samples map[string]float64

func parse(t *testing.T, text []byte) (map[string]*dto.MetricFamily, samples) {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	all := samples{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, pair := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", pair.GetName(), pair.GetValue()))
			}
			suffix := ""
			if len(labels) > 0 {
				suffix = "{" + strings.Join(labels, ",") + "}"
			}
			if h := m.GetHistogram(); h != nil {
				all[name+"_count"+suffix], all[name+"_sum"+suffix] = float64(h.GetSampleCount()), h.GetSampleSum()
				continue
			}
			all[name+suffix] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return families, all
}

// wants compares some of the samples.
func (s samples) wants(t *testing.T, want samples) {
	t.Helper()
	for name, value := range want {
		if got, ok := s[name]; !ok || got != value {
			t.Errorf("%s is %v (there: %t), want %v", name, got, ok, value)
		}
	}
}

// promtool runs Prometheus' own tool, and skips the test if it is not installed.
func promtool(t *testing.T, stdin []byte, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not in PATH: install Debian's package prometheus, or run make promtool and add bin to PATH")
	}
	c := exec.CommandContext(t.Context(), path, args...)
	c.Stdin = bytes.NewReader(stdin)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
