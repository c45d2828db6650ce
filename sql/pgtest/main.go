package pgtest

import (
	"flag"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// current is the fixture between the start and the end of Main.
var current atomic.Pointer[fixture]

// withoutMain is the fixture of a process whose TestMain does not call Main: nothing says when its
// tests have ended.
var withoutMain = sync.OnceValue(newFixture)

func theFixture() *fixture {
	if f := current.Load(); f != nil {
		return f
	}
	return withoutMain()
}

// Main runs the tests of a package, for a TestMain, and returns the code to exit with, as m.Run
// does. Unless -parallel is given, four tests for each core run at once, 16 at most. At the end it removes what the
// tests shared: a server that was started for them or, on a server that was there before, the template. When that fails
// it says so on the log, and the code is not 0.
func Main(m *testing.M) int {
	f := newFixture()
	current.Store(f)
	runTogether()
	code := m.Run()
	if f.started == nil {
		return code
	}
	if err := f.started.close(); err != nil {
		slog.Error("close the server of the tests", "error", err)
		return max(code, 1)
	}
	return code
}

// runTogether lets four tests for each core run at once, 16 at most, unless the command line says how many. Tests that
// use a database mostly wait: for the server, for leases and for locks.
func runTogether() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if f := flag.Lookup("test.parallel"); f != nil && !given {
		procs := runtime.GOMAXPROCS(0)
		_ = f.Value.Set(strconv.Itoa(max(procs, min(4*procs, 16))))
	}
}

// fixture is what the tests of a process share. Both are made once, when first asked for.
type fixture struct {
	server   func() (*server, error)
	template func() (string, error)
	started  *server // nil until then
}

// lasting tells whether the server outlives the process, and what the tests share stays on it.
func (f *fixture) lasting() bool {
	raw, _ := given()
	return current.Load() != f && raw != ""
}

func newFixture() *fixture {
	f := &fixture{}
	f.server = sync.OnceValues(func() (_ *server, err error) {
		f.started, err = startServer()
		return f.started, err
	})
	f.template = sync.OnceValues(func() (string, error) {
		server, err := f.server()
		if err != nil {
			return "", err
		}
		return server.makeTemplate()
	})
	return f
}
