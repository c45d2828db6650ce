// Package daemon runs every slot as it begins, and catches up in between, for those who have neither cron nor
// Kubernetes to start a run at each boundary:
//
//	err := daemon.Run(ctx, daemon.Config{Runner: slots.Config{DB: db, Registry: registry}, Listen: "localhost:8080"})
//
// It decides nothing that a run does not: any number of daemons, and runs started by cron beside them, share each slot,
// as each claims the next rows of it, and one that is killed is replaced by the others when its leases end.
//
// # What happens when
//
// One loop asks the database for the time, at the latest every 10 s and just after each boundary, so that neither a
// clock that steps nor a machine that slept misleads it. By what it hears it begins, each beside the loop:
//
//   - the run of the slot that has begun, also right after the start. It is repeated every 10 s until the slot is done:
//     the runner that holds the rest may have died, the database may have gone away, or a job may be registered
//     elsewhere alone, which the log says once an hour;
//   - catch-up, when a slot is done, and every minute, or width where that is less: slots that nobody opened, slots left
//     open, stragglers. A slot that a run is at, here or elsewhere, is left to it. At the start and once an hour it looks
//     at the whole ledger, in between at the slots since the last time or the first that was left to its run, and those
//     of ten minutes before.
//
// A run never waits for catch-up, nor for the run of the slot before: they go on beside each other, each with its own
// workers, so that a slow check delays nothing but its own slot. Config.Slots bounds how many; when that many are at
// work, a slot that begins waits for one of them, and is catch-up's when the next has begun meanwhile. Stopping one of
// them at the boundary instead would cost no connections, but would cut off checks, and then repeat them.
//
// While the database does not answer the daemon keeps asking, after half a second at first and 10 s at last; the log
// has one line when that begins and one when it ends.
//
// # How it ends
//
// When its context ends it stops in good order: running checks get the runner's Grace, what they return is recorded,
// claims are handed back, and Run returns nil. What takes longer than Grace is checked again by whoever runs next. A
// check that ignores its timeout ends only with the process: the daemon then stops likewise and returns
// slots.ErrAbandoned, so that systemd or Kubernetes starts it anew.
//
// # Who watches it
//
// Three paths are served on Config.Listen. /healthz says how things are, to those who Config.MayRead lets as [Health], with
// 503 where a person should look: the database does not answer, a slot was missed and is not caught up on, a run failed, or a condition of package
// health does not hold. /readyz tells whether it runs slots. /livez is for whoever restarts it: 503 only when the loop itself has not come round for six minutes, which no fault of the database causes.
// systemd, where Config.Systemd asks for it, is told when it is ready and how it is, and its watchdog is fed while
// /livez is 200.
package daemon
