// Package slots runs slots. A run opens a slot in the ledger, claims its rows page by page under leases, calls the
// checks of these rows and records the outcomes. CatchUp runs the slots that were missed or left open.
//
// # The way of one row
//
// A slot has rows of several jobs, and a run claims the rows of a job a page at a time. Follow a row in this order:
//
//	Runner.Due         which.go          chooses the slot, from the clock, --slot or the name of a Kubernetes Job
//	Runner.Run         runner.go         waits for the boundary of the slot, and runs it
//	run.do             run.go            opens the slot, claims pages until no rows are left, and closes the slot
//	claim.Session      internal/claim    opens and closes the slot in the database, and claims and reads its rows
//	lane.Lanes         internal/lane     choose the job to claim rows of next, and the number of rows
//	run.claim          claim.go          claims a page of a job under a lease, and starts the work on it
//	work.do            work.go           reads the rows of the claim, and takes them through the parts below
//	unit.Unit          internal/unit     holds the rows of one call and why they wait, and divides them if it fails
//	lane.Lanes.Admit   internal/lane     sends each unit to the gate that its check waits at
//	permit.Gate        internal/permit   starts a check when workers, connections and the job's limits allow it
//	round.Round        internal/round    calls the functions concurrently, each under a watch, and collects the outcomes
//	txn.Checker        internal/txn      runs a check in its own transaction, which also locks the row and records it
//	row.Outcome        internal/row      is the result of a row
//	record.Recorder    internal/record   moves rows, or ends them in history, in one message that ends with the fence
//
// These parts serve all steps:
//
//	ledger.Ledger      slots/ledger        reads the state of slots and jobs for operators; package health judges it
//	retention.Prune    internal/retention  drops what is older than history.retention
//	Runner.CatchUp     catchup.go          finds the missed slots
//	catching           catching.go         runs them beside one another, the oldest first
//	beside, lull       beside.go           share the bounds of one run among these, and tell when the next one may begin
//	Runner.RunJob      byhand.go           runs the rows of a job that an operator wants checked now
//	work.pause         wait.go             waits for locks, permits or the database, and work.do tries rows again
//	phase.Contexts     internal/phase      end one after the other when the run is stopped
//	claim.Keeper       internal/claim      renews the leases of the claims and their permits, and drops what is lost
//	db.Server          internal/db         sends the messages, and repeats them while the database is away
//	db.RowWait         internal/db         logs the session that holds a lock of rows for long
//	report             report.go           collects the result and the progress, and tells the Observer
//
// # Claims, leases and the fence
//
// The statements are functions in the database: open_slot, claim_rows, take_over, fence and close_slot in
// sql/functions. Each call is one message that commits by itself. A runner that is killed in the middle leaves no lock
// behind, and a runner that gets no reply sends the message again.
//
// A claim moves the cursor of a job past its next rows. It also inserts a row into slot_claim, with a token and the
// instant at which the lease expires. So an idle runner simply claims more. When a runner dies, its leases expire, and
// another runner takes its claims over under a new token. Each transaction that records outcomes ends with the fence,
// which fails if the claim no longer carries the token of the runner. The record of the last row of a claim ends the
// claim, and the end of the last claim closes the slot. The cursor of a job does not move while the job is paused or at
// its limit, or if this binary does not know the job.
//
// A claim whose lease is lost records nothing more. It ends when each of its checks has returned or is abandoned. Until
// then the checks keep their workers and permits, and the run goes on.
//
// # Locked rows and refused rows
//
// A row that another transaction has locked does not block the checks beside it. The run tries to record it once a
// second. If nothing else is left, Run stays until shortly before the next slot begins, and CatchUp for some seconds.
// Then they hand back the claim, and a later catch-up takes the row. A slot that was left may have rows whose functions
// were called without a record, and so may a claim that was taken over. Such a function is not called again while its
// row is locked. Each unit says why it waits. Only rows that wait for locks are left: the others wait for a permit, for
// the database, or because their call was divided.
//
// Locked rows may use 64 MiB of memory beside the 80 MiB of the rows in work; above that the run stops claiming.
// Rows that wait for a permit of a limit shared with other runs may use 16 MiB more for each such job.
//
// A row gets an error for what its function did, or for an outcome that the database refuses. A failure of the database
// itself is not an error of the row: the run repeats the message for as long as a lease, and then ends. If the database
// refuses a message, for example because a trigger of the application raises an error, the run halves the rows until it
// finds the one to blame. That row gets an error, and the others are recorded. If the database refuses the error too,
// the row stays, and its claim keeps the slot open for catch-up.
//
// # Rows that arrive late
//
// A transaction that began before the slot can commit rows into it while the slot runs. An enqueue takes the number of
// its transaction before it chooses the slot, and open_slot takes a number after the slot has begun. So the slot is
// settled when all transactions with lower numbers have ended. If it was not settled at first, the run looks through it
// again before it closes it. Rows that commit after that are stragglers, and catch-up runs them.
//
// # Not before
//
// No check starts before its instant, because these places keep to it one after the other:
//
//	due_slot      chooses the slot of a row: one at or after its instant, which has not begun. The functions enqueue and
//	              rule_wait do the same in place, because a call costs more
//	its callers   choose again after a wait for a lock, which may have lasted beyond the boundary
//	fence         fails a record that has moved rows to a slot, if that slot has begun meanwhile
//	Runner.Run    waits for the boundary, on the clock that slots are compared with
//	open_slot     lets no run into a slot that has not begun by the clock of the database
//
// All but Run are functions in sql/functions.
//
// # Time
//
// The instant of the slot is a parameter everywhere. Leases always use the clock of the database. Everything that is
// compared with slots uses Config.Now, or the clock of the database if that is nil. Package grid has the arithmetic of
// slots.
//
// # Who may import whom
//
// No package below internal knows its callers. Each imports what stands behind it, and the linter checks that:
//
//	phase       nothing
//	row         internal/guard, jobs
//	db          internal/elapsed, internal/pg, sql
//	claim       db, phase, row, jobs, internal/elapsed, internal/pg
//	permit      db, phase, internal/elapsed, internal/pg
//	unit        row, internal/elapsed, internal/guard, internal/leave, jobs
//	record      claim, db, row, internal/elapsed, internal/guard, internal/plain, internal/journal, internal/reserved,
//	            jobs, internal/pg, sql
//	txn         claim, db, permit, phase, record, row, unit, jobs, internal/elapsed, internal/pg, internal/reserved
//	lane        permit, phase, row, unit, jobs
//	round       claim, lane, phase, row, txn, unit, internal/elapsed, internal/guard, jobs, internal/pg,
//	            internal/reserved
//
// Package internal/shape tests the sizes of structs and types, and this table.
package slots
