package pgtest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
)

// Kind is the kind of fault at a round trip.
type Kind string

// The kinds.
const (
	// CrashBefore: the process dies before it sends anything. All of its connections are cut, and
	// every later call fails at once.
	CrashBefore Kind = "crash before"
	// CrashAfter: the server executes the statement, and then the process dies.
	CrashAfter Kind = "crash after"
	// Cut: the connection is cut before anything is sent. The process goes on.
	Cut Kind = "cut"
	// LostReply: the server executes the statement, and the connection is cut before any of the
	// reply arrives.
	LostReply Kind = "lost reply"
	// TornReply: the server executes the statement, and the connection is cut when all but the end
	// of the reply has arrived.
	TornReply Kind = "torn reply"
	// FailedCommit: as TornReply, but the server goes away when it is about to commit. It applies
	// to commits, and to messages that end in one or in one and the beginning of another
	// transaction. Others pass unharmed.
	FailedCommit Kind = "failed commit"
	// Outage: every connection of the process is cut before anything is sent, and no other can be
	// opened for the pause.
	Outage Kind = "outage"
	// LateReply: the server executes the statement, and the reply arrives after the pause. Other
	// connections are not slower.
	LateReply Kind = "late reply"
	// StopBefore: the process stands still for the pause, as with SIGSTOP, before anything is sent.
	StopBefore Kind = "stop before"
	// StopAfter: the server executes the statement, and then the process stands still for the
	// pause.
	StopAfter Kind = "stop after"
	// SomebodyFirst: another session acts before anything is sent.
	SomebodyFirst Kind = "somebody first"
)

// Fault describes a fault that happens once.
type Fault struct {
	// At is the number of the round trip, from 1 on. With Of, only trips for which Of is true
	// count. 0: never.
	At   int
	Of   func(text string) bool
	Kind Kind
	// Pause is how long the outage lasts, the reply is late, or the process stands still. For
	// SomebodyFirst it bounds the wait for First, which may itself wait for the process; 0: no
	// bound.
	Pause time.Duration
	// Reset says how a cut connection fails: true: with a network error; false: it ends.
	Reset bool
	// First acts before the round trip. It is called in a goroutine of its own.
	First func()
}

// Faults is a process's connection to its database, with a fault at a chosen round trip. The driver
// decides what a round trip is: opening a connection, begin, commit, rollback, preparing a
// statement, and each exec and query, also of several statements in one message.
type Faults struct {
	// DB is the pool of the process.
	DB *sqlx.DB

	mu       sync.Mutex
	fault    Fault
	trips    []string
	counted  int // of trips, by fault.Of
	hit      int // which of trips the fault happened at; 0: none
	happened chan struct{}
	wires    map[*wire]struct{}
	gate     chan struct{} // closed when the process goes on; nil: it does not stand still
	down     bool          // no connection can be opened
	died     chan struct{}
}

// Pool says which driver makes the connections of a pool.
type Pool int

// The connections of pgsql.Open, with and without prepared statements, and those of lib/pq, as an
// application has them.
const (
	Unprepared Pool = iota
	Prepared
	OfDriver
)

// OpenFaults connects to a database of the test. No fault happens before Set. The pool is closed
// with the test.
func OpenFaults(t testing.TB, url string, pool Pool) *Faults {
	t.Helper()
	f := &Faults{wires: map[*wire]struct{}{}, died: make(chan struct{}), happened: make(chan struct{})}
	cfg, err := pq.NewConfig(url)
	if err != nil {
		t.Fatal("connect to the test's database: its URL cannot be parsed")
	}
	cfg.ApplicationName = "prescient"
	base, err := pq.NewConnectorConfig(cfg)
	if err != nil {
		t.Fatal("connect to the test's database: its URL cannot be parsed")
	}
	base.Dialer(f)
	var connector driver.Connector = faultyConnector{base, f}
	if pool != OfDriver {
		connector = pg.NewConnector(connector, pool == Prepared)
	}
	f.DB = sqlx.NewDb(sql.OpenDB(connector), "postgres")
	t.Cleanup(func() { _ = f.DB.Close() })
	if err := f.DB.PingContext(t.Context()); err != nil {
		t.Fatal(fmt.Errorf("connect to the test's database: %w", err))
	}
	return f
}

// Set sets the next fault, and begins to count at 1.
func (f *Faults) Set(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.trips, f.counted, f.hit, f.happened = fault, nil, 0, 0, make(chan struct{})
}

// Trips lists the round trips since Set by their texts.
func (f *Faults) Trips() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.trips)
}

// Hit returns the round trip at which the fault happened, counted among all, and its text. Returns
// 0 if it has not happened.
func (f *Faults) Hit() (k int, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hit == 0 {
		return 0, ""
	}
	return f.hit, f.trips[f.hit-1]
}

// Happened is closed when the fault begins.
func (f *Faults) Happened() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.happened
}

// Died is closed when the process has died.
func (f *Faults) Died() <-chan struct{} { return f.died }

// Alive is called before the test acts in the process. It returns when the process does not stand
// still, and returns false if it has died.
func (f *Faults) Alive() bool {
	f.waitWhileStopped()
	return !f.isDead()
}

// String describes the fault, such as "k=17 lost reply at: commit".
func (f *Faults) String() string {
	k, text := f.Hit()
	switch {
	case f.fault.At == 0:
		return "no fault"
	case k == 0:
		return fmt.Sprintf("%s, not reached in %d round trips", f.fault.Kind, len(f.Trips()))
	}
	return fmt.Sprintf("k=%d %s at: %s", k, f.fault.Kind, text)
}

// next counts a round trip, and returns its fault. The fault has no kind if there is none.
func (f *Faults) next(text string, commits bool) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isDead() {
		return Fault{}
	}
	f.trips = append(f.trips, text)
	if f.fault.Of == nil || f.fault.Of(text) {
		f.counted++
	} else {
		return Fault{}
	}
	if f.counted != f.fault.At || f.hit > 0 || f.fault.Kind == FailedCommit && !commits {
		return Fault{}
	}
	f.hit = len(f.trips)
	close(f.happened)
	return f.fault
}

// Kill makes the process die: every connection is cut for good, and the server ends the sessions.
func (f *Faults) Kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isDead() {
		return
	}
	close(f.died)
	for w := range f.wires {
		w.cut(false)
	}
}

func (f *Faults) isDead() bool {
	select {
	case <-f.died:
		return true
	default:
		return false
	}
}

// cutAll cuts every connection, and refuses others for a while.
func (f *Faults) cutAll(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.wires {
		w.cut(fault.Reset)
	}
	f.down = true
	time.AfterFunc(fault.Pause, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.down = false
	})
}

// stop makes the process stand still.
func (f *Faults) stop(pause time.Duration) {
	gate := make(chan struct{})
	f.mu.Lock()
	f.gate = gate
	f.mu.Unlock()
	time.AfterFunc(pause, func() { close(gate) })
}

func (f *Faults) waitWhileStopped() {
	f.mu.Lock()
	gate := f.gate
	f.mu.Unlock()
	if gate == nil {
		return
	}
	select {
	case <-gate:
	case <-f.died:
	}
}

// letFirst calls First.
func (f *Faults) letFirst(fault Fault) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		fault.First()
	}()
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if fault.Pause > 0 {
		ctx, cancel = context.WithTimeout(ctx, fault.Pause)
	}
	defer cancel()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

var (
	noise = regexp.MustCompile(`--[^\n]*|` +
		`(?i:\bset\s+local\s[^;]*;?| isolation level [a-z ]+, not deferrable[^;]*|^select;\s)`)
	strs    = regexp.MustCompile(`'(?:[^']|'')*'`)
	numbers = regexp.MustCompile(`\(-?[0-9]+\)`)
	spaces  = regexp.MustCompile(`\s+`)
)

// textOf returns a statement without the parts that change from run to run: its literals and
// settings.
func textOf(query string) string {
	query = noise.ReplaceAllString(strs.ReplaceAllString(query, "''"), " ")
	query = spaces.ReplaceAllString(numbers.ReplaceAllString(query, "()"), " ")
	return strings.Trim(query, "; ")
}
