// Package daemon runs every slot as it begins, and catches up in between. It is for machines
// without cron or Kubernetes:
//
//	err := daemon.Run(ctx, daemon.Config{Runner: slots.Config{DB: db, Registry: registry}, Listen: "localhost:8088"})
//
// It has the jobs of the registry alone: rules and schedules only after rule.Register and schedule.Register, no jobs of
// the settings, and no forwarder of events. The command daemon adds all of these.
//
// It has no powers beyond those of a run. Any number of daemons, and runs started by cron, share
// each slot, as each claims the next rows of it. If a daemon is killed, the others take over when
// its leases end.
//
// # What happens when
//
// One loop asks the database for the time, at least every 10 s and just after each boundary. So
// neither a clock that steps nor a machine that slept misleads it. By the answer it begins these,
// each beside the loop:
//
//   - The run of the slot that has begun, also right after the start. It repeats the run every 10 s
//     until the slot is done: a runner that holds rows may have died, the database may be away, or
//     only another binary may have registered a job. The log names such a job once an hour.
//   - Catch-up, when a slot is done, and every minute or width, whichever is shorter. It takes slots
//     that no run has opened, slots left open, and stragglers. It leaves a slot that a run works on,
//     here or elsewhere, to that run. At the start and once an hour it reads the whole ledger. In
//     between it reads the slots since the last time, or since the first slot left to its run, and
//     ten minutes before. It goes on to later slots while a check of an earlier one hangs. It leaves
//     rows that other sessions have locked, and the next catch-up looks at them again. If it only
//     waits for checks that run, for locks and for limits of jobs, the next one begins beside it and
//     leaves it the slots that it works on. If both only wait, another catch-up begins when one of
//     them ends.
//
// A run never waits for catch-up, nor for the run of the slot before. Each has its own workers, so
// a slow check delays only its own slot. Config.Slots bounds their number. At that number, a slot
// that begins waits for one of them to end. If the next slot begins meanwhile, catch-up takes it.
// Stopping a run at the boundary instead would need no more connections, but would cut off checks
// and repeat them.
//
// While the database does not answer, the daemon keeps asking: after half a second at first, later
// every 10 s. It logs one line when that begins and one when it ends.
//
// # How it ends
//
// When its context ends, it stops gracefully. Running checks get the runner's Grace, their
// results are recorded, claims are handed back, and Run returns nil. The next runner repeats a
// check that takes longer than Grace. A check that ignores its timeout ends only with the process.
// The daemon then stops in the same way and returns slots.ErrAbandoned, so that systemd or
// Kubernetes starts it again.
//
// # How to watch it
//
// Config.Listen serves three paths:
//
//   - /healthz answers 503 if an operator should look: the database does not answer, a slot was missed
//     and is not caught up on, a run failed, or package health found a problem. Requests that
//     Config.MayRead accepts get a [Health].
//   - /readyz reports whether it runs slots.
//   - /livez answers 503 only if the loop has stood still for six minutes, which no fault of the
//     database causes. Restart the process then.
//
// With Config.Systemd, the daemon tells systemd when it is ready and its state, and feeds the
// watchdog while /livez is 200.
package daemon
