package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// fault is one of the schedule.
type fault struct {
	after  time.Duration // since the last one began
	kind   string
	target int
	number uint32 // what else the kind needs
}

const (
	fillTheDisk  = "fill the disk"
	killThePool  = "kill the pooler"
	promotesNext = "fail over to a standby"
	stepTheClock = "step the clock"
)

type kindOfFault struct {
	name   string
	weight int // 0: it comes only if it is asked for
}

// kinds are the kinds of faults, and how often each comes.
var kinds = []kindOfFault{
	{"kill at a statement", 300},
	{"kill", 200},
	{"lose the reply to a commit", 250},
	{"stop past the lease", 40},
	{"terminate backends", 150},
	{"cut connections", 120},
	{"delay", 40},
	{"throttle", 30},
	{"silence", 50},
	{"restart the server", 8},
	{promotesNext, 5},
	{refusesEvents, 40},
	{hangs, 40},
	{dies, 40},
	{killThePool, 0},
	{fillTheDisk, 0},
	{stepTheClock, 0},
}

// schedule makes the faults of a seed.
func schedule(random *rand.Rand, most, every time.Duration, only []string) (all []fault) {
	var bag []string
	for _, k := range kinds {
		weight := k.weight
		switch {
		case len(only) == 0:
		case slices.Contains(only, k.name):
			weight = max(weight, 40)
		default:
			weight = 0
		}
		for range weight {
			bag = append(bag, k.name)
		}
	}
	for total := time.Duration(0); total < most; {
		f := fault{
			after: time.Duration(random.Int64N(int64(2 * every))), kind: pick(random, bag...),
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
	case refusesEvents, hangs, dies:
		if n := uint32(len(t.destinations)); n > 0 {
			t.destinations[f.number%n].suffers(ctx, f.kind, time.Duration(1000+f.number>>1%5000)*time.Millisecond)
			return "for a while"
		}
	case "restart the server":
		if t.cluster.restart(ctx) {
			return "restarted"
		}
	case promotesNext:
		switch done, err := t.cluster.failover(ctx, time.Duration(f.number%1000)*time.Millisecond); {
		case err != nil:
			t.log.WarnContext(ctx, "no failover", "error", err)
		case done:
			return "promoted"
		}
	case fillTheDisk:
		switch done, err := t.cluster.fill(ctx, time.Duration(500+f.number%3000)*time.Millisecond); {
		case err != nil:
			t.log.WarnContext(ctx, "the disk was not filled", "error", err)
		case done:
			return "filled"
		}
	case stepTheClock:
		by := []time.Duration{time.Hour, -time.Hour}[f.number%2]
		switch done, err := t.clock.step(ctx, by, time.Duration(500+f.number>>1%6000)*time.Millisecond); {
		case err != nil:
			t.log.WarnContext(ctx, "the clock was not stepped", "error", err)
		case done:
			return "by " + by.String()
		}
	case killThePool:
		if t.pooler != nil && t.pooler.kill() {
			return "killed"
		}
	}
	return ""
}
