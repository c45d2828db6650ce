package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// place is where one process after another runs the same command.
type place struct {
	name, kind string
	args       []string
	every      time.Duration // at whose multiples a process starts, as from cron; 0: when the last one has ended
	listens    string        // host and port of its server; empty: it has none
	torture    *torture
	proxy      *proxy
	faults     chan fault

	mu      sync.Mutex
	process *os.Process // nil: none
	stopped time.Time   // zero: it goes on
	over    bool
	idle    chan struct{}
}

// keepUp starts the command again and again.
func (t *torture) keepUp(ctx context.Context, p *place) {
	for {
		p.mu.Lock()
		if p.over || ctx.Err() != nil {
			p.mu.Unlock()
			return
		}
		path := filepath.Join(t.dir, strings.ReplaceAll(p.name, " ", "-")+".log")
		log, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			p.mu.Unlock()
			t.log.ErrorContext(ctx, err.Error())
			return
		}
		c := exec.Command(os.Args[0], append([]string{"as", p.kind}, p.args...)...) //nolint:noctx // killed by finish
		c.Env, c.SysProcAttr = t.environment(p.proxy.url("prescient", "prescient")), attributes()
		c.Stdout, c.Stderr = log, log
		if err := c.Start(); err != nil {
			p.mu.Unlock()
			t.log.ErrorContext(ctx, err.Error())
			return
		}
		p.process, p.idle = c.Process, make(chan struct{})
		p.mu.Unlock()
		t.count("processes", 1)
		_ = c.Wait()
		_ = log.Close()
		p.mu.Lock()
		p.process = nil
		close(p.idle)
		p.mu.Unlock()
		pause := 100 * time.Millisecond
		if p.every > 0 {
			pause = time.Until(time.Now().Truncate(p.every).Add(p.every))
		}
		wait(ctx, pause)
	}
}

func (p *place) kill() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil || !p.stopped.IsZero() || p.process.Kill() != nil {
		return false
	}
	p.torture.halted(halt{pid: p.process.Pid, from: time.Now()})
	return true
}

func (t *torture) halted(h halt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.halts = append(t.halts, h)
}

// stop lets the process stand still, as a machine that sleeps does.
func (p *place) stop(ctx context.Context, most time.Duration) bool {
	p.mu.Lock()
	if p.process == nil || p.process.Signal(syscall.SIGSTOP) != nil {
		p.mu.Unlock()
		return false
	}
	p.stopped = time.Now()
	p.mu.Unlock()
	wait(ctx, most)
	p.proceed()
	return true
}

func (p *place) proceed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil || p.stopped.IsZero() {
		return
	}
	p.torture.halted(halt{p.process.Pid, p.stopped, time.Now()})
	p.stopped = time.Time{}
	_ = p.process.Signal(syscall.SIGCONT)
}

// finish ends the process gracefully, and starts no other one.
func (p *place) finish() {
	p.mu.Lock()
	p.over = true
	process, idle := p.process, p.idle
	p.mu.Unlock()
	if process == nil {
		return
	}
	_ = process.Signal(syscall.SIGTERM)
	select {
	case <-idle:
	case <-time.After(20 * time.Second):
		p.torture.log.Error("the process does not end", "place", p.name)
		_ = process.Kill()
		<-idle
	}
}
