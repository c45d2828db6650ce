package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
)

// Executable is what Add puts into a slot.
type Executable struct {
	// Name is what it is called in its slot: 1 to 200 bytes of UTF-8, no slash, no dot in front.
	Name string
	// Content is a program, or a script whose first line names its interpreter.
	Content io.Reader
	// Guards of the zero value are DefaultGuards.
	Guards Guards
}

// ErrExists is returned by Add for a name that waits in the slot already.
var ErrExists = errors.New("the name is taken")

// Add puts an executable into the first slot at or after an instant, and returns that slot. A slot that has begun is
// never a target: it is the next one then. When Add returns, the executable waits whole and survives a power cut; when
// it fails or is killed, nothing waits. What is wrong with the executable or the instant is a jobs.FieldError.
func (s *Spool) Add(ctx context.Context, at time.Time, e Executable) (time.Time, error) {
	if e.Guards == (Guards{}) {
		e.Guards = DefaultGuards()
	}
	if _, err := s.target(at, e); err != nil { // before the content is read, which may take long
		return time.Time{}, err
	}
	file, err := s.newTemp()
	if err != nil {
		return time.Time{}, fmt.Errorf("add %s: %w", e.Name, err)
	}
	defer func() {
		release(file)
		_ = os.Remove(file.Name()) // no longer there when all went well
	}()
	if err := write(ctx, file, e.Content); err != nil {
		return time.Time{}, fmt.Errorf("add %s: %w", e.Name, err)
	}
	return s.place(file, at, e)
}

// target returns the slot that an instant stands for.
func (s *Spool) target(at time.Time, e Executable) (time.Time, error) {
	if err := errors.Join(checkName(e.Name), e.Guards.validate()); err != nil {
		return time.Time{}, err
	}
	now := s.Now()
	slot := s.Grid().Ceil(at)
	if !slot.After(now) {
		slot = s.Grid().Next(now)
	}
	switch {
	case at.IsZero():
		return slot, &jobs.FieldError{Field: "at", Rule: "must be set"}
	case slot.Before(minSlot) || slot.After(maxSlot):
		return slot, &jobs.FieldError{Field: "at", Rule: "must be before the end of 2099: the name of a slot has two digits for the year"}
	case slot.Sub(now) > time.Duration(e.Guards.Horizon):
		return slot, &jobs.FieldError{Field: "at", Rule: fmt.Sprintf("must be within the horizon, %s from now", spoken.Duration(time.Duration(e.Guards.Horizon)))}
	}
	return slot, nil
}

// tempPattern names what Add writes before it is placed. Its writer holds its lock.
const tempPattern = ".add-*"

// newTemp makes a locked file in the spool's directory, and removes those of writers that were killed.
func (s *Spool) newTemp() (*os.File, error) {
	unlock, err := s.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	old, err := filepath.Glob(filepath.Join(s.dir, tempPattern))
	if err != nil {
		return nil, err
	}
	for _, path := range old {
		if !held(path) {
			_ = os.Remove(path)
		}
	}
	file, err := os.CreateTemp(s.dir, tempPattern)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(file.Chmod(0o755), flock(file, syscall.LOCK_EX)); err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	return file, nil
}

// write copies the content of an executable.
func write(ctx context.Context, file *os.File, content io.Reader) error {
	beginning, err := io.ReadAll(io.LimitReader(content, 512))
	if err != nil {
		return err
	}
	if err := checkContent(beginning); err != nil {
		return err
	}
	if _, err := io.Copy(file, io.MultiReader(bytes.NewReader(beginning), content)); err != nil {
		return err
	}
	return errors.Join(file.Sync(), context.Cause(ctx))
}

// checkContent refuses what would not start, as far as its beginning shows.
func checkContent(beginning []byte) error {
	isText := utf8.Valid(beginning[:max(0, len(beginning)-utf8.UTFMax)]) && bytes.IndexByte(beginning, 0) < 0
	switch {
	case len(beginning) == 0:
		return &jobs.FieldError{Field: "content", Rule: "must not be empty"}
	case isText && !strings.HasPrefix(string(beginning), "#!"):
		return &jobs.FieldError{Field: "content", Rule: "must be a program, or a script whose first line names its interpreter, as #!/bin/sh does"}
	}
	return nil
}

// place moves a whole file into the slot that an instant stands for, and returns it.
func (s *Spool) place(file *os.File, at time.Time, e Executable) (time.Time, error) {
	unlock, err := s.lock()
	if err != nil {
		return time.Time{}, fmt.Errorf("add %s: %w", e.Name, err)
	}
	defer unlock()
	slot, err := s.target(at, e) // now: the content, or the lock, may have been waited for over a boundary
	if err != nil {
		return time.Time{}, err
	}
	if err := s.placeIn(slot, file, e); err != nil {
		return time.Time{}, fmt.Errorf("add %s to slot %s: %w", e.Name, slot.Format(time.RFC3339), err)
	}
	return slot, nil
}

// placeIn moves a whole file into a slot, no longer locked; its rename is the commit. Call it with the spool locked.
func (s *Spool) placeIn(slot time.Time, file *os.File, e Executable) error {
	release(file)
	path := s.path(slot, e.Name)
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%w: take another name or slot, or remove %s first", ErrExists, path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := makeDir(s.slotDir(slot)); err != nil {
		return err
	}
	if err := writeJSON(sidecar(path), Job{AddedAt: s.Now(), FirstSlot: slot, Guards: e.Guards}); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	return syncDir(s.slotDir(slot))
}
