// Package slots runs slots: it opens them in the ledger, claims their rows page by page under leases, has them checked
// and records what became of them. It also catches up on slots that were missed.
//
// A slot is jobs, a job is pages, and a page is what a runner holds. One row on its way, and where to read it:
//
//	Runner.Due      which.go    the slot that this moment, this Job name or --slot stands for
//	Runner.Run      runner.go   waits for its boundary and runs it
//	run.do          run.go      opens the slot, claims while there is something to claim, closes the slot
//	phases          phases.go   the contexts of a run, which end one after the other when it is stopped
//	session.Session internal/session  takes part in the slot: opens it, lists its jobs, closes it
//	lanes           lane.go     the jobs of the slot that are known here, by what their checks wait for
//	turn.Order      internal/turn  which jobs have their rows claimed next, and how many rows
//	run.claim       claim.go    a claim: the next rows of a job, under a lease
//	page.Reader     internal/page  claims rows, takes them over, and reads them within bounds
//	run.workOn      work.go     the way of a claim: read, check, record, done; account.go counts its rows
//	unit.Unit       internal/unit  the rows of one call: how they are put together and divided, and what becomes of them
//	lanes.admit     admit.go    divides the units of a claim by the door that their checks wait at
//	permit.Door     internal/permit  where a check waits for a place, its instant and a worker; what all runners may do of a job
//	round           check.go    calls the functions, so many at once; timeout, panic and Goexit become errors (internal/call)
//	txn.Checker     internal/txn  does a check in a transaction of its own, which locks its rows and records itself; its
//	                            commit begins that of the next row in the same message
//	tray            tray.go     what has become of the units of a round, until it is recorded
//	row.Outcome     internal/row  the result of a row; outcomes that are alike are recorded together
//	record.Recorder internal/record  records outcomes, in one message to the server that ends with the fence; later those
//	                            of rows that another transaction has locked; and isolates the rows that the database refuses
//	statement.Writer internal/statement  writes the statements for that, and what goes into the trace of a row that is
//	                            moved; see prescient.why
//	holder.Vigil    internal/holder  names in the log the session that holds a lock of rows for long
//	server.Server   internal/server  sends the messages of the engine, and again while the database cannot do it
//	lease.Keeper    internal/lease   renews the leases of the claims, and drops those that are lost
//	Runner.CatchUp  catchup.go  every slot that was missed or left, oldest first
//	Ledger          ledger.go   what there is to see; ledger_jobs.go how the jobs do, which package health judges
//	report          report.go   what a run tells of itself: its result, its progress, and the Observer (observer.go)
//
// The statements are functions in the database (open_slot, claim_rows, take_over, fence, close_slot in
// sql/functions): each is one message that commits by itself, so a runner that is stopped in its middle
// holds nothing up, and one that gets no reply sends it again.
//
// A claim moves the cursor of a job past the next rows and leaves a row in slot_claim with a token and the time until
// which it is good. So whoever is idle claims more, and a runner that dies leaves a page: another takes the claim over
// under a new token. The fence, in the transaction of everything that is recorded, finds no claim with the old one. The
// record of its last row ends a claim, and the end of the last claim closes the slot. A job that is paused, is not
// registered here or is at its limit is one whose cursor is not moved.
//
// Rows that another transaction has locked wait outside of the bounds on checks, and the run tries them once a second.
// In memory they may take 64 MiB beside the 80 MiB of rows that the run works on; beyond that it claims nothing until
// some are free. Rows that wait for a place of a limit which other runs have may take 16 MiB more for each such job.
// Only what a function did, or did not survive, is an error of its row; what the database cannot do is repeated for as
// long as a lease, and then ends the run. If the database refuses rows, by a trigger of the application for example, the
// run finds the row that is to blame by halving: that row has an error, and the others are recorded. If the database
// refuses the error too, the row is left, and its claim keeps the slot open for catch-up.
//
// Rows come late where a transaction that began before the slot commits while it runs: whoever enqueues takes the
// number of its transaction before it chooses the slot, and whoever opens the slot takes a number after it has begun. So
// when all lower numbers have ended, the slot is settled. Where it was not from the start, it is looked through again
// before it is closed. What commits after that is a straggler, for catch-up.
//
// The slot's instant is a parameter everywhere. Leases use the database's clock, always; everything that compares
// with slots uses Config.Now, or the database's clock where that is nil.
//
// The parts below internal know nothing of what uses them. Each may import what stands behind it, and the linter holds
// that:
//
//	turn            nothing              numbers alone; pure
//	row             internal/guard, jobs values that travel
//	server          elapsed, sql         no rows, claims or jobs
//	lease           server               tokens; what else a heartbeat renews is a Companion
//	permit          server               the rules of jobs, and no rows
//	session         server               no rows and no checks
//	holder          server               rows by their ids
//	page            lease, row, server, jobs, internal/engine; no functions and no outcomes
//	call            elapsed              no SQL and no claims
//	unit            call, row, jobs, and engine and guard of internal; no SQL, no claims and no places
//	statement       row, server, jobs, and engine, guard and trace of internal; sends nothing, and no leases
//	record          statement, lease, row, server, jobs, internal/guard; no functions and no turns
//	txn             unit, call, record, statement, lease, permit, holder, row, server, jobs, internal/guard; no turns, no pages
//
// Package internal/shape tests how large structs, types and packages are.
//
// The arithmetic of the grid is in package grid below this one.
package slots
