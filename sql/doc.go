// Package sql opens a database, makes and upgrades prescient's schema and roles in it, and runs
// transactions: [Open], [Migrate], [MakeRoles], [InTx]. Its folders hold the migrations, the functions
// and every statement as .sql files; they alone name tables. Import it as pgsql, since its own name
// would shadow database/sql.
//
//	import pgsql "github.com/prescient-go/prescient/sql"
//
// These tables make up the store:
//
//   - future_job: the pending checks, each in a slot. Its primary key (next_check_at, job, id) is the
//     slot index. A run reads it by equality on the slot and the job alone.
//   - job: the number of each job, which stands for its name in future_job; whether the job is
//     paused, and when a run last knew it. The number follows from the name and the secret in job_secret.
//   - future_job_history: the rows that ended, each with its outcome, one partition a month.
//   - slot_run: the ledger, one row for every slot that was opened. A gap is a missed slot.
//     slot_job has one row for each job with rows in the slot, and the cursor of its claims.
//   - slot_claim: which runner works on which rows of an open slot, and until when. slot_progress counts
//     what was recorded under claims, until the slot is closed. slot_lateness counts how late checks
//     began.
//   - job_permit and job_rate: how many checks of a job runs may do at once, and when the next one may
//     begin, if that is limited over all runs.
//
// Domains say which values the columns of future_job may hold, and with which outcomes a row may
// end. Only the grid is a CHECK of the table, because set_width changes it. The server reads a
// CHECK from the catalog for every statement that writes to the table, and a domain once.
//
// schedule holds the recurring schedules; each active one also has a row in future_job. schedule_state
// counts the events that a schedule dropped.
//
// event_outbox holds the published events. event_consumer says how far each consumer has read, and
// event_watermark how far the outbox was pruned. event_dead holds the events that a destination
// refuses, and event_sent when receivers got messages.
//
// rule holds the rules that were applied, and rule_fired the steps of rules that have fired. rule_changed
// holds when columns of rows changed, and when rows were paused.
//
// alert holds the findings that a person was told of, and alert_look when a process last looked for
// some. action holds what operators did by the web UI and its API.
//
// transfer_out and transfer_in briefly hold rows that move to or from another store.
//
// setting holds the width of the grid. Applications call enqueue, enqueue_many, cancel, cancel_entity,
// reschedule and push_back; package jobs calls the same functions. Runs call open_slot, claim_rows, take_over,
// fence, close_slot, begin_check and record_row. docs/functions.md has the others that SQL may call, such as why.
//
// The functions for applications run with the rights of the schema's owner, with a search_path that no
// caller can change. So do rule_wait, rule_wait_many, rule_look, rule_mark, rule_resume, rule_rename and cancel_keys,
// which the triggers of rules call. [MakeRoles] makes the roles. The role for applications may execute the
// functions for applications and touch no table; roles.sql says what each role may do.
//
// Tables are history and functions are code. A file in migrations changes tables, and is never
// edited once it is released. A file in functions holds the functions of its name, and is edited in
// place. [Migrate] replaces all functions if the schema has others, in the transaction of the last
// migration. A migration drops a function that goes, or whose parameters or result change.
// [Objects] lists what belongs to prescient: an application may have objects of its own in the schema.
//
// The .sql files are valid as they stand, except that {{kept}} and the like stand for lists of
// columns; see statements/columns.go. They name the schema "prescient"; package internal/pg, which
// sends them, rewrites them for another.
//
// Subpackages: embedded runs a private PostgreSQL if no database URL is given. pgtest gives every
// test a database of its own.
package sql
