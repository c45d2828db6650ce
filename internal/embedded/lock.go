package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
)

// lock keeps other processes from starting or stopping the server meanwhile. The kernel frees it
// when its holder dies.
func (s *Server) lock(ctx context.Context) (*os.File, error) {
	file, err := s.open("lock", os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s/lock: %w", s.dir, err), file.Close())
		}
		if !elapsed.Sleep(ctx, 20*time.Millisecond) {
			return nil, errors.Join(
				fmt.Errorf("wait for another process that starts or stops the server: %w", context.Cause(ctx)), file.Close())
		}
	}
}

// open follows no link out of the directory, which another user may own when the caller is root.
func (s *Server) open(name string, flag int) (*os.File, error) {
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, fmt.Errorf("open the directory of the embedded PostgreSQL: %w; run as the user who started it first", err)
	}
	defer func() { _ = root.Close() }()
	file, err := root.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open %s/%s: %w; run as the user who started the server first, and check that the disk "+
			"is neither full nor read-only", s.dir, name, err)
	}
	return file, nil
}
