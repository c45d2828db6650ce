package sql

import (
	"net"
	"os/exec"
	"path/filepath"
	"testing"
)

// A server in another namespace of processes says numbers that are somebody else's here, such as those of whom a pooler has started,
// or the first process of all where that listens in the pooler's place.
func TestAProcessOfAnotherNameIsNoServerThoughTheListenerHasStartedIt(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	wire, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = wire.Close() }()
	child := exec.CommandContext(t.Context(), "sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Wait() }()
	defer func() { _ = child.Process.Kill() }()
	if servedBy(wire.(*net.UnixConn), int64(child.Process.Pid)) {
		t.Error("it is taken for one")
	}
}
