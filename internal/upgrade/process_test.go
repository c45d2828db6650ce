package upgrade_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/prescient-go/prescient/internal/await"
)

// world is a database, and the processes that work on it.
type world struct {
	t   *testing.T
	dir string
	env []string

	mu      sync.Mutex
	started int
	pids    map[string]string // the number of a process, and the name of its version
}

func newWorld(t *testing.T, url string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), pids: map[string]string{}}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PRESCIENT_") && !strings.HasPrefix(v, "PG") {
			w.env = append(w.env, v)
		}
	}
	w.env = append(w.env, "PRESCIENT_DATABASE_URL="+url, "PRESCIENT_CONFIG="+w.write("prescient.yaml", settings),
		"PRESCIENT_RUN_START_TOLERANCE=1s", "PRESCIENT_RUN_LEASE=10s")
	return w
}

func (w *world) write(name, text string) string {
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// do runs a command of a version to its end.
func (w *world) do(b binary, args ...string) (out string, code int) {
	w.t.Helper()
	c := exec.CommandContext(w.t.Context(), b.path, args...)
	c.Env, c.Dir = w.env, w.dir
	text, err := c.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(text), exit.ExitCode()
	} else if err != nil {
		w.t.Fatal(err)
	}
	return string(text), 0
}

// must runs a command that succeeds.
func (w *world) must(b binary, args ...string) string {
	w.t.Helper()
	out, code := w.do(b, args...)
	if code != 0 {
		w.t.Fatalf("%s %s: exit code %d\n%s", b.name, strings.Join(args, " "), code, out)
	}
	return out
}

// lastLines is how much of a log a failed test shows.
const lastLines = 20

// process is a command that is started, once or again and again.
type process struct {
	w    *world
	name string
	log  string
	stop context.CancelFunc
	done chan struct{}
	code int // of the last one that ended, or the first failure
}

// start starts a command. A runner that ends is started again.
func (w *world) start(b binary, again bool, env []string, args ...string) *process {
	w.t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(w.t.Context()))
	w.mu.Lock()
	w.started++
	p := &process{
		w: w, name: b.name + " " + strings.Join(args, " "), stop: stop, done: make(chan struct{}),
		log: filepath.Join(w.dir, strconv.Itoa(w.started)+".log"),
	}
	w.mu.Unlock()
	log, err := os.Create(p.log)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		p.end()
		_ = log.Close()
		if w.t.Failed() {
			lines := strings.Split(p.said(), "\n")
			w.t.Logf("%s:\n%s", p.name, strings.Join(lines[max(0, len(lines)-lastLines):], "\n"))
		}
	})
	go func() {
		defer close(p.done)
		for ctx.Err() == nil {
			c := exec.CommandContext(ctx, b.path, args...)
			c.Env, c.Dir, c.Stdout, c.Stderr = append(env, w.env...), w.dir, log, log
			c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
			if err := c.Start(); err != nil {
				p.code = -1
				return
			}
			w.mu.Lock()
			w.pids[strconv.Itoa(c.Process.Pid)] = b.name
			w.mu.Unlock()
			_ = c.Wait()
			if code := c.ProcessState.ExitCode(); ctx.Err() == nil && (code != 0 || !again) {
				p.code = code
				return
			}
		}
	}()
	return p
}

// end stops the process gracefully.
func (p *process) end() {
	p.stop()
	<-p.done
}

func (p *process) said() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		p.w.t.Error(err)
	}
	return string(text)
}

// says waits until the process has logged a text.
func (p *process) says(text string) {
	p.w.t.Helper()
	await.True(p.w.t, p.name+" to log "+text, func() bool { return strings.Contains(p.said(), text) })
}

// works fails the test if the process has failed or logged an error.
func (p *process) works() {
	p.w.t.Helper()
	select {
	case <-p.done:
		if p.code != 0 {
			p.w.t.Errorf("%s: exit code %d", p.name, p.code)
		}
	default:
	}
	for line := range strings.Lines(p.said()) {
		if strings.Contains(line, "level=ERROR") {
			p.w.t.Errorf("%s: %s", p.name, line)
		}
	}
}

// versionOf returns the version of a runner, whose name is host:pid.
func (w *world) versionOf(runner string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pids[runner[strings.LastIndexByte(runner, ':')+1:]]
}
