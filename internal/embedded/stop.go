package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Stop stops the server and returns when it has ended: sessions are cut, their transactions rolled
// back, everything committed is on disk. A server that does not run is fine. When ctx ends first it
// goes on stopping.
func (s *Server) Stop(ctx context.Context) error {
	if _, err := os.Stat(s.dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	pid, err := s.pid(ctx)
	if err != nil || pid == 0 {
		return err
	}
	major, err := s.dataVersion()
	if err != nil {
		return err
	}
	in, err := s.install(ctx, major)
	if err != nil {
		return err
	}
	// pg_ctl signals as the server's user, so a forged pid file cannot make root signal anything
	// else. How long to wait is up to ctx.
	if err := run(s.command(ctx, in.program("pg_ctl"), "stop", "-D", s.data(), "-m", "fast", "-t", "86400")); err != nil {
		return fmt.Errorf("stop the embedded PostgreSQL (pid %d): %w", pid, err)
	}
	return nil
}
