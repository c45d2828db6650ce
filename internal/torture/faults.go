package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// fault is one of the schedule.
type fault struct {
	after  time.Duration // since the last one began
	kind   string
	target int
	number uint32 // what else the kind needs
}

// kinds are the kinds of faults, and how often each comes.
var kinds = []struct {
	name   string
	weight int
}{
	{"kill at a statement", 30},
	{"kill", 20},
	{"lose the reply to a commit", 25},
	{"stop past the lease", 3},
	{"terminate backends", 15},
	{"cut connections", 12},
	{"delay", 4},
	{"throttle", 3},
	{"silence", 5},
	{"restart the server", 1},
}

// schedule makes the faults of a seed.
func schedule(random *rand.Rand, most time.Duration, only []string) (all []fault) {
	var bag []string
	for _, k := range kinds {
		if len(only) == 0 || slices.Contains(only, k.name) {
			for range k.weight {
				bag = append(bag, k.name)
			}
		}
	}
	for total := time.Duration(0); total < most; {
		f := fault{
			after: time.Duration(50+random.IntN(400)) * time.Millisecond, kind: pick(random, bag...),
			target: random.IntN(1 << 16), number: random.Uint32(),
		}
		total += f.after
		all = append(all, f)
	}
	return all
}

var pointNames = slices.Sorted(maps.Keys(points))

// do does a fault, and returns what it did; empty: there was nothing to do it to.
func (t *torture) do(ctx context.Context, f fault) string {
	p := t.places[f.target%len(t.places)]
	switch f.kind {
	case "kill at a statement":
		point := pointNames[f.number%uint32(len(pointNames))]
		how := []strike{killBefore, killAfter}[f.number>>8%2]
		if p.proxy.arm(ctx, point, how, func() { p.kill() }, 3*time.Second) {
			return fmt.Sprintf("%s at %s", how, point)
		}
	case "lose the reply to a commit":
		on := p.proxy
		if f.number%3 == 0 {
			on = t.client
		}
		if on.arm(ctx, "commit", loseReply, nil, 3*time.Second) {
			return "lost"
		}
	case "kill":
		if p.kill() {
			return "killed"
		}
	case "stop past the lease":
		if p.stop(ctx, lease+2*time.Second) {
			return "stopped"
		}
	case "terminate backends":
		var ended int
		err := t.admin.GetContext(ctx, &ended, `
			select count(*) from (
				select pg_terminate_backend(pid) from pg_stat_activity
				where datname = $1 and pid <> pg_backend_pid() and application_name <> 'torture' and random() < 0.4 limit 10
			) as t`, databaseName)
		if err == nil && ended > 0 {
			t.count("backends terminated", ended)
			return "terminated"
		}
	case "cut connections":
		if n := p.proxy.cut(f.number%2 == 0); n > 0 {
			return "cut"
		}
	case "delay":
		p.proxy.set(func(p *proxy) { p.delay = time.Duration(20+f.number%300) * time.Millisecond })
		wait(ctx, 2*time.Second)
		p.proxy.heal()
		return "delayed"
	case "throttle":
		p.proxy.set(func(p *proxy) { p.slow = true })
		wait(ctx, 3*time.Second)
		p.proxy.heal()
		return "throttled"
	case "silence":
		p.proxy.set(func(p *proxy) { p.mute = [2]bool{f.number%3 != 0, f.number%3 != 1} })
		wait(ctx, time.Duration(500+f.number%6000)*time.Millisecond)
		p.proxy.heal()
		return "silent"
	case "restart the server":
		if t.restart(ctx) {
			return "restarted"
		}
	}
	return ""
}

// restart ends the server as a crash would, and starts it again.
func (t *torture) restart(ctx context.Context) bool {
	if !t.restarting.TryLock() {
		return false
	}
	defer t.restarting.Unlock()
	status, err := t.server.Status(ctx)
	if err != nil || status.PID == 0 {
		return false
	}
	if err := syscall.Kill(status.PID, syscall.SIGQUIT); err != nil {
		return false
	}
	for range 100 {
		wait(ctx, 100*time.Millisecond)
		if err := t.server.Start(ctx); err == nil {
			return true
		}
	}
	return false
}
