package spool

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// errHeld is returned for a lock that another process has.
var errHeld = errors.New("held by another process")

// lock takes the lock of the spool, for as long as it takes to look at something or to move it, and returns the
// function that gives it back.
func (s *Spool) lock() (unlock func(), err error) {
	dir, err := os.Open(s.dir)
	if err != nil {
		return nil, fmt.Errorf("lock the spool: %w", err)
	}
	if err := flock(dir, syscall.LOCK_EX); err != nil {
		_ = dir.Close()
		return nil, fmt.Errorf("lock the spool: flock %s: %w; it must be on a local file system", s.dir, err)
	}
	return func() { release(dir) }, nil
}

// claim locks a file or a directory, or returns errHeld. Call it with the spool locked: then what has this path cannot
// change meanwhile, and nobody only tries the lock.
func claim(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := flock(file, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errHeld
		}
		return nil, fmt.Errorf("flock %s: %w; it must be on a local file system", path, err)
	}
	return file, nil
}

// held tells whether somebody has the lock of a file. Call it with the spool locked.
func held(path string) bool {
	file, err := claim(path)
	if err == nil {
		release(file)
	}
	return errors.Is(err, errHeld)
}

// release gives a lock back at once, whatever process has inherited it, if only between its fork and its exec.
func release(file *os.File) {
	_ = flock(file, syscall.LOCK_UN)
	_ = file.Close()
}

func flock(file *os.File, how int) error {
	for {
		if err := syscall.Flock(int(file.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
