package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

func (s *Server) pidFile() string { return filepath.Join(s.data(), "postmaster.pid") }

// pid is that of the running server, 0 when it does not run. The pid file alone proves nothing: a
// crash leaves it behind, and its number may belong to another program by now. An open socket
// proves it, or a process that was started for this data.
func (s *Server) pid(ctx context.Context) (int, error) {
	content, err := os.ReadFile(s.pidFile())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the server's pid: %w; run as the user who owns %s", err, s.dir)
	}
	lines := strings.Split(string(content), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || len(lines) < 2 {
		return 0, nil // cut off by a crash of the machine
	}
	if err := s.CheckSocket(); err != nil {
		return 0, err
	}
	if s.listening(ctx) || strings.Contains(commandLine(ctx, pid)+" ", "postgres -D "+lines[1]+" ") {
		return pid, nil
	}
	return 0, nil
}

// listening finds a server in another container, too, where its pid says nothing.
func (s *Server) listening(ctx context.Context) bool {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", filepath.Join(s.socket(), socketFile))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// removeStale removes what a server that died left behind: PostgreSQL would not start
// when another program has got the old pid.
func (s *Server) removeStale() error {
	socket := filepath.Join(s.socket(), socketFile)
	for _, path := range []string{s.pidFile(), socket, socket + ".lock"} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove what a dead server left behind: %w", err)
		}
	}
	return nil
}

// commandLine is empty for a process that does not exist.
func commandLine(ctx context.Context, pid int) string {
	if raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil {
		return strings.TrimRight(strings.ReplaceAll(string(raw), "\x00", " "), " ")
	}
	out, err := exec.CommandContext(ctx, "ps", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
