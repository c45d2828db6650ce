package pgtest

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// Process is the test binary, started again beside a test, so that it can be stopped and killed.
type Process struct {
	*exec.Cmd
	Out, Log bytes.Buffer // what it has written to stdout and stderr; complete after Wait
}

// StartProcess starts the test binary with some NAME=VALUE in its environment, by which TestMain
// knows what to do instead of running tests, and on which database. It is killed at the end of the
// test at the latest.
func StartProcess(t testing.TB, env ...string) *Process {
	t.Helper()
	p := &Process{Cmd: exec.Command(os.Args[0])} //nolint:noctx // killed below
	p.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0"), env...)
	p.Stdout, p.Stderr = &p.Out, &p.Log
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

// Terminate sends SIGTERM, does something, and waits for the process to end well.
func (p *Process) Terminate(t testing.TB, meanwhile func()) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	meanwhile()
	if err := p.Wait(); err != nil {
		t.Errorf("%v\n%s%s", err, &p.Out, &p.Log)
	}
}
