// Package spool is the file-system form of the idea, without a database: a directory for each slot, with executables
// in it. It is for one machine, for checks in any language, and for what must run when the database does not.
//
//	DIR/2603011315/order-42              the slot of 2026-03-01T13:15:00Z, and an executable in it
//	DIR/2603011315/.order-42.json        its sidecar: a Job; without one everything has its default
//	DIR/history/2603011315/order-42/     what ended: executable, output and result.json, an Ended
//
// One executable on its way, and where to read it:
//
//	Spool.Add       add.go      copies it beside the slots, then moves it into its slot
//	Spool.Due       due.go      the slot that this moment or this Job name stands for
//	Spool.Run       run.go      takes the slot's lock, and goes through its directory
//	run.claim       run.go      takes the executable's own lock
//	run.check       check.go    starts it, reads its output, ends it when its time is over
//	run.record      record.go   moves it to a later slot, or to history
//	Spool.CatchUp   catchup.go  every slot that was missed or left, oldest first
//	Spool.List      list.go     what there is to see
//
// # What an executable says
//
// Exit status 0 finishes it. 75, EX_TEMPFAIL of sysexits.h, asks for the next slot. A line "next: <RFC 3339>" on stdout
// beside either of them asks for the slot at or after that time; of several the last one counts. Anything else - another
// status, a signal, a timeout, a file that does not start - is an error. The guards are those of package jobs, with the
// same outcomes: Definition.Before and Definition.After judge here, too. Each executable has its own Guards.
//
// It runs in the directory of its runner, in a process group of its own, with an empty stdin and, in its environment,
// PRESCIENT_SLOT, PRESCIENT_NAME, PRESCIENT_CHECK_COUNT, PRESCIENT_ERROR_COUNT, PRESCIENT_CAUGHT_UP and
// PRESCIENT_SPOOL_DIR. It has ended when its process has and nobody has its output open any more, so what a script
// leaves in the background is a part of it. Its timeout is SIGTERM to the group, and SIGKILL after the grace period.
// History keeps the output of the last check, the first and the last half of MaxOutput.
//
// # What survives a crash
//
// An executable is in exactly one place, and a rename moves it: that is the commit. The sidecar of the slot it goes to,
// or the output and the result in history, are written before, and count for nothing while the executable is elsewhere.
// A process that is killed at any point has moved it or not; if not, it is checked again: at least once. The other
// way round nothing is started that could not be recorded: the sidecar is written before each check. The sidecar that
// a move leaves behind is swept when its slot is done, and so is the slot's directory.
//
// # Who may do what at once
//
// Three locks, all of them flock(2), so that the kernel frees them when their holders die, and none leaves a file:
//
//   - the spool's own directory, by whoever moves, claims or looks at something, for an instant;
//   - the slot's directory, by the one run that is at it. Another finds it held, and has nothing to do;
//   - the executable itself, by its check, which inherits the descriptor (number 100). A runner that is killed leaves
//     its checks running, and each of them keeps its lock for as long as it runs. Until then nobody starts it again.
//
// A check that closes the descriptors it does not know gives up the third. flock needs a local file system.
//
// Executables are found by name, so people may drop them into a slot with cp or mv, and take them away with rm, also
// while they run. Move the sidecar along, or the counts begin anew. What is not executable, hidden, a directory, a
// link, or for everybody to write is reported and never run, and so is a directory off the grid.
//
// Now is the machine's clock: there is no other. There is no ledger, so an empty slot that no run has seen leaves no
// trace, and what a run of the current slot has left waits there until the same run again, or the next slot, in which
// it counts as missed.
package spool
