package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// lines is a log that a test reads.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) count(message string) int { return strings.Count(l.String(), message) }

// address waits until the daemon listens, and returns its address.
func (l *lines) address(t *testing.T) string {
	t.Helper()
	var address string
	eventually(t, "the daemon to listen", func() bool {
		_, rest, found := strings.Cut(l.String(), "msg=listening address=")
		address, _, _ = strings.Cut(rest, " ")
		return found
	})
	return address
}

func get(t *testing.T, url string, v any) int {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return response.StatusCode
}

func TestHealthIsServedBesideTheHandlerOfTheCaller(t *testing.T) {
	t.Parallel()
	w := setup(t, day)
	w.record("job")
	w.due(w.slot(0), "job", 3)
	log := &lines{}
	_, end := w.start(func(c *Config) {
		c.Listen = "127.0.0.1:0"
		c.Runner.Logger = log.logger()
		c.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, `"`+r.URL.Path+`"`) })
	})
	base := "http://" + log.address(t)
	var h Health
	eventually(t, "the daemon to be well", func() bool { return get(t, base+"/healthz", &h) == http.StatusOK && h.Last != nil })
	if !h.Last.Slot.Equal(w.slot(0)) || h.Last.Checked != 3 || h.Last.State != "done" || !h.Next.Equal(w.slot(1)) || len(h.Problems) != 0 {
		t.Errorf("health: %+v", h)
	}
	var path string
	if code := get(t, base+"/schedules", &path); code != http.StatusOK || path != "/schedules" {
		t.Errorf("the caller's handler: %d %q", code, path)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(base, "http://")); err == nil {
		t.Error("the daemon listens after its end")
	}
}

func TestFailingChecksAreAProblemOfHealthAndNotOfReadiness(t *testing.T) {
	t.Parallel()
	w := setup(t, day)
	w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, errors.New("boom") }), jobs.Retry(0))
	w.due(w.slot(0), "job", 3)
	log := &lines{}
	_, end := w.start(func(c *Config) {
		c.Listen = "127.0.0.1:0"
		c.Runner.Logger = log.logger()
	})
	base := "http://" + log.address(t)
	var h Health
	eventually(t, "the run to end", func() bool { get(t, base+"/healthz", &h); return h.Last != nil && h.Last.State == "done" })
	eventually(t, "what the ledger tells", func() bool {
		return get(t, base+"/healthz", &h) == http.StatusServiceUnavailable &&
			strings.Contains(strings.Join(h.Problems, "\n"), "gave-up: 3 rows of job were given up in the last day: boom.")
	})
	var ready map[string]bool
	if code := get(t, base+"/readyz", &ready); code != http.StatusOK || !ready["ready"] {
		t.Errorf("/readyz: %d %v", code, ready)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// A stopped server or a dead network sends nothing, and the end of a context alone does not end a read from it.
func TestHealthAnswersWhileTheDatabaseIsSilent(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "the test does not start its servers, so it cannot stop them")
	w := setupOn(t, day, pgtest.Direct(t))
	log := &lines{}
	d, end := w.start(func(c *Config) {
		c.Listen = "127.0.0.1:0"
		c.Runner.Logger = log.logger()
	})
	base := "http://" + log.address(t)
	eventually(t, "the daemon to wait for the next slot", func() bool {
		h := d.health()
		return h.Last != nil && len(h.Running) == 0 && !h.CatchingUp
	})
	var pids []int
	if err := w.db.Select(&pids, `select pid from pg_stat_activity where datname = current_database() and backend_type = 'client backend'`); err != nil {
		t.Fatal(err)
	}
	signalAll := func(signal syscall.Signal) {
		for _, pid := range pids {
			_ = syscall.Kill(pid, signal) // one may have ended
		}
	}
	signalAll(syscall.SIGSTOP)
	var h Health
	began := time.Now()
	code := get(t, base+"/healthz", &h)
	took := time.Since(began)
	signalAll(syscall.SIGCONT)
	if code != http.StatusServiceUnavailable || took > lookTimeout ||
		!strings.Contains(strings.Join(h.Problems, "\n"), "the state is unknown: the database has not answered yet") {
		t.Errorf("%d %+v after %s", code, h, took)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// The standby can be read, so a daemon that only asked for the time would stay ready.
func TestADaemonIsNotReadyWhileItsServerIsAStandby(t *testing.T) {
	t.Parallel()
	server := pgtest.Private(t, nil)
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	db, err := pgsql.Open(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := pgsql.Migrate(t.Context(), db, ""); err != nil {
		t.Fatal(err)
	}
	w := setupOn(t, day, server.URL())
	d, end := w.start()
	eventually(t, "the daemon to be ready", d.isReady)
	pgtest.StandBy(t, server)
	eventually(t, "the reason", func() bool {
		return !d.isReady() && strings.Contains(strings.Join(d.health().Problems, "\n"), pgsql.ErrReadOnly.Error())
	})
	if err := pgtest.Promote(t.Context(), server); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the daemon to be ready again", d.isReady)
	if err := end(); err != nil {
		t.Error(err)
	}
}

func TestWithoutADatabaseHealthAndReadinessFailAndLivenessDoesNot(t *testing.T) {
	t.Parallel()
	w := setup(t, day)
	if err := w.db.Close(); err != nil {
		t.Fatal(err)
	}
	d, _ := w.start()
	handler := healthOf(d)
	ask := func(path string) (int, string) {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
		return answer.Code, answer.Body.String()
	}
	eventually(t, "the reason", func() bool {
		code, text := ask("/healthz")
		return code == http.StatusServiceUnavailable && strings.Contains(text, "the database cannot be used: ")
	})
	if code, text := ask("/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz: %d %s", code, text)
	}
	if code, text := ask("/livez"); code != http.StatusOK {
		t.Errorf("/livez: %d %s", code, text)
	}
	if code, _ := ask("/other"); code != http.StatusNotFound {
		t.Errorf("a path that is not there: %d", code)
	}
}

// manager stands for systemd: it listens on a socket, and keeps the messages that it gets.
type manager struct {
	mu   sync.Mutex
	told []string
}

// newManager sets variables of the environment, so a test that calls it is not parallel.
func newManager(t *testing.T, watchdog string) *manager {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", watchdog)
	m := &manager{}
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := conn.Read(buffer)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.told = append(m.told, string(buffer[:n]))
			m.mu.Unlock()
		}
	}()
	return m
}

// heard counts the messages that begin with a prefix.
func (m *manager) heard(prefix string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.told {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

func TestSystemdIsToldTheStateOfTheDaemon(t *testing.T) {
	m := newManager(t, "200000")
	w := setup(t, time.Second)
	w.record("job")
	w.due(w.slot(2), "job", 3)
	_, end := w.start(func(c *Config) { c.Systemd = true })
	eventually(t, "READY=1", func() bool { return m.heard("READY=1") == 1 })
	eventually(t, "the watchdog to be fed", func() bool { return m.heard("WATCHDOG=1") > 3 })
	eventually(t, "the status", func() bool { return m.heard("STATUS=slot ") > 0 })
	if n := m.heard("STOPPING=1"); n != 0 {
		t.Errorf("STOPPING=1 was sent %d times before the end", n)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	eventually(t, "STOPPING=1", func() bool { return m.heard("STOPPING=1") == 1 })
}

func TestSystemdIsToldTheStateOfEachStore(t *testing.T) {
	m := newManager(t, "200000")
	w := setup(t, day)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	f := NewMulti(reserved.Caller{}, ctx, MultiConfig{Systemd: true, Logger: slog.New(slog.DiscardHandler)})
	f.Down("far", errors.New("no route"))
	eventually(t, "the status of the store that is down", func() bool { return m.heard("STATUS=store far: no route") > 0 })
	if m.heard("READY=1") > 0 {
		t.Error("READY=1 was sent, and no store runs")
	}
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx, "shop", w.config()) }()
	eventually(t, "READY=1", func() bool { return m.heard("READY=1") == 1 })
	eventually(t, "the watchdog to be fed", func() bool { return m.heard("WATCHDOG=1") > 3 })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	eventually(t, "STOPPING=1", func() bool { return m.heard("STOPPING=1") == 1 })
}

func TestTheOnlyStoreIsNotHealthyBeforeItRuns(t *testing.T) {
	t.Parallel()
	m := NewMulti(reserved.Caller{}, t.Context(), MultiConfig{MayRead: func(*http.Request) bool { return true }})
	m.Down("", errors.New("not yet"))
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", nil))
	if answer.Code != http.StatusServiceUnavailable || !strings.Contains(answer.Body.String(), `["not yet"]`) {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}

func TestTheWatchdogIsNotFedWhenTheLoopHangs(t *testing.T) {
	m := newManager(t, "100000")
	w := setup(t, time.Second)
	var hang gate
	d, err := newDaemon(w.config(func(c *Config) {
		c.Systemd = true
		start, base := time.Now(), w.slot(0)
		c.Runner.Now = func() time.Time {
			hang.wait()
			return base.Add(time.Since(start))
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	d.patience = 5 * time.Second
	w.startDaemon(d)
	eventually(t, "the watchdog to be fed", func() bool { return m.heard("WATCHDOG=1") > 3 })
	release := hang.close()
	defer release()
	eventually(t, "the loop to count as hanging", func() bool { return !d.alive(d.patience) })
	answer := httptest.NewRecorder()
	healthOf(d).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/livez", nil))
	if answer.Code != http.StatusServiceUnavailable {
		t.Errorf("/livez: %d", answer.Code)
	}
	fed := m.heard("WATCHDOG=1")
	for begin := time.Now(); time.Since(begin) < time.Second; time.Sleep(50 * time.Millisecond) {
		if n := m.heard("WATCHDOG=1"); n > fed+1 { // one may have been on its way
			t.Fatalf("fed %d times more while the loop hangs", n-fed)
		}
	}
}

// gate blocks the goroutines that wait at it between close and release.
type gate struct {
	mu     sync.Mutex
	closed chan struct{}
}

func (c *gate) wait() {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed != nil {
		<-closed
	}
}

func (c *gate) close() (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	closed := make(chan struct{})
	c.closed = closed
	return func() { close(closed) }
}

// observer counts runs that failed, by slot.
type observer struct {
	mu     sync.Mutex
	failed map[time.Time]int
}

func (*observer) Recorded([]slots.Recorded) {}

func (o *observer) Ran(r slots.Result, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.failed[r.Slot]++
	}
}

// count returns how many slots from an instant on have failed, and how often a single one failed at
// most.
func (o *observer) count(from time.Time) (n, again int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for slot, times := range o.failed {
		if !slot.Before(from) {
			n, again = n+1, max(again, times)
		}
	}
	return n, again
}

// panicking is an observer that counts the runs it panics for.
type panicking struct{ ran atomic.Int64 }

func (*panicking) Recorded([]slots.Recorded) {}

func (p *panicking) Ran(_ slots.Result, err error) {
	if err != nil {
		p.ran.Add(1)
		panic("metrics are broken")
	}
}

func TestAnObserverThatPanicsWithoutADatabaseDoesNotEndTheDaemon(t *testing.T) {
	t.Parallel()
	w := setup(t, time.Second)
	o := new(panicking)
	_, _ = w.start(func(c *Config) { c.Runner.Observer = o })
	eventually(t, "a slot to be done", func() bool { return w.count(`select count(*) from prescient.slot_run where state = 'done'`) > 0 })
	if err := w.db.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "two runs that failed", func() bool { return o.ran.Load() >= 2 })
}

func TestASlotThatBeginsWithoutADatabaseCountsAsAFailedRun(t *testing.T) {
	t.Parallel()
	w := setup(t, time.Second)
	watching := &observer{failed: map[time.Time]int{}}
	told := &observer{failed: map[time.Time]int{}}
	_, _ = w.start(func(c *Config) {
		c.Runner.Observer = watching
		c.AfterRun = func(_ context.Context, r slots.Result, err error) { told.Ran(r, err) }
	})
	eventually(t, "a slot to be done", func() bool { return w.count(`select count(*) from prescient.slot_run where state = 'done'`) > 0 })
	next := w.slot(2) // no run of it has begun when the pool is closed
	if err := w.db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, o := range []*observer{watching, told} {
		eventually(t, "two runs that failed", func() bool { n, _ := o.count(next); return n >= 2 })
		if _, again := o.count(next); again != 1 {
			t.Errorf("a failed run is counted %d times", again)
		}
	}
}

// healthOf serves the health of a daemon without a server.
func healthOf(d *daemon) http.Handler {
	m := NewMulti(reserved.Caller{}, context.Background(), MultiConfig{MayRead: d.cfg.MayRead})
	m.add("", d)
	return m.Handler()
}
