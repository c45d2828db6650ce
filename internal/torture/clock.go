package main

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// clockSource is a library that shifts the clock of the servers.
//
//go:embed clock/shift.c
var clockSource []byte

// clock is that of the servers. A nil clock is that of the machine.
type clock struct {
	file *os.File // the seconds that are added

	stepping sync.Mutex // held during a step and the way back

	mu    sync.Mutex
	steps []clockStep
}

// clockStep is a change of the clock.
type clockStep struct {
	at    time.Time     // by the clock of the machine
	shift time.Duration // from then on
}

// newClock compiles the library, and puts servers with it before those in PATH.
func newClock(ctx context.Context, dir string) (*clock, error) {
	source, library := filepath.Join(dir, "shift.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(source, clockSource, 0o644); err != nil {
		return nil, err
	}
	compile := exec.CommandContext(ctx, "cc", "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl")
	if out, err := compile.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile the library of the clock: %w\n%s", err, out)
	}
	file, err := os.OpenFile(filepath.Join(dir, "clock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	c := &clock{file: file}
	return c, errors.Join(os.Chmod(library, 0o755), c.shift(0), wrapServers(dir, library, file.Name()))
}

// wrapServers makes a directory of programs whose server loads the library. It sets the environment, because servers
// start without that of their caller.
func wrapServers(dir, library, clock string) error {
	server, err := exec.LookPath("postgres")
	if err != nil {
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
		if len(found) == 0 {
			return err
		}
		server = found[len(found)-1]
	}
	programs, err := filepath.Glob(filepath.Join(filepath.Dir(server), "*"))
	if err != nil {
		return err
	}
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	for _, program := range programs {
		if program != server {
			err = errors.Join(err, os.Symlink(program, filepath.Join(bin, filepath.Base(program))))
		}
	}
	script := fmt.Sprintf("#!/bin/sh\nexec env LD_PRELOAD='%s' TORTURE_CLOCK='%s' '%s' \"$@\"\n", library, clock, server)
	return errors.Join(err, os.WriteFile(filepath.Join(bin, "postgres"), []byte(script), 0o755),
		os.Setenv("PATH", strings.Join([]string{bin, os.Getenv("PATH")}, string(os.PathListSeparator))))
}

// shift sets what is added to the clock.
func (c *clock) shift(by time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var seconds [8]byte
	binary.NativeEndian.PutUint64(seconds[:], uint64(by/time.Second))
	_, err := c.file.WriteAt(seconds[:], 0)
	c.steps = append(c.steps, clockStep{time.Now(), by})
	return err
}

// latest returns the latest time that the servers can have shown up to an instant of the machine.
func (c *clock) latest(at time.Time) time.Time {
	latest := at
	if c == nil {
		return latest
	}
	for i, s := range c.steps {
		end := at
		if i+1 < len(c.steps) && c.steps[i+1].at.Before(at) {
			end = c.steps[i+1].at
		}
		if shown := end.Add(s.shift); !s.at.After(at) && shown.After(latest) {
			latest = shown
		}
	}
	return latest
}

// step sets the clock an hour forward or back, and returns it after a while.
func (c *clock) step(ctx context.Context, by, most time.Duration) (bool, error) {
	if c == nil || !c.stepping.TryLock() {
		return false, nil
	}
	defer c.stepping.Unlock()
	if err := c.shift(by); err != nil {
		return false, err
	}
	wait(ctx, most)
	return true, c.shift(0)
}
