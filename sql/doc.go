// Package sql is the store: the migrations and every statement, as .sql files. It is the only place that names
// tables. Import it as pgsql, since its own name would shadow database/sql.
//
//	import pgsql "github.com/prescient-go/prescient/sql"
//
// These tables make up the store:
//
//   - future_job: the pending checks, each in a slot. Its primary key (next_check_at, job, id) is the slot index, and a
//     run touches it by equality on the slot and the job alone.
//   - job: the number of each job, which stands for its name in future_job, whether it is paused, and when a run last
//     knew it.
//   - future_job_history: what ended, with its outcome, one partition a month.
//   - slot_run: the ledger, one row for every slot that was opened. A gap is a missed slot. slot_job, below it, has one
//     for each job that had rows in the slot, with a cursor up to which they were claimed.
//   - slot_claim: who works on which rows of an open slot, and until when. slot_tally, beside it, has what was recorded
//     under claims, until the slot is closed. slot_lateness is how late the checks of a job began.
//
// What the columns of future_job may hold, and as what a row may end, is said by domains. Only the grid is a check of the table, since
// set_width changes it: the server reads those from the catalog for every statement that writes to the table, and a domain once.
//
// Beside them, schedule holds the recurring schedules, each active one with a row of future_job; schedule_drop counts the
// events they dropped; event_outbox holds the events that were published to it, event_consumer how far each consumer has
// read, and event_removed how far it was pruned.
//
// store_out and store_in have rows on their way to another store and from one, for the moment that takes.
//
// setting holds the width of the grid. The functions enqueue, enqueue_many, cancel, cancel_entity, reschedule and
// push_back are for every client that speaks SQL, and why for whoever asks; package jobs calls the same ones. The others are for runs: open_slot,
// claim_rows, take_over, fence and close_slot, begin_check and record_row.
//
// Those for every client run with the rights of the schema's owner, with a search_path that no caller can change. [MakeRoles]
// makes roles, of which that for applications may execute them and touch no table; roles.sql says who may do what.
//
// Tables are history and functions are code. A file in migrations changes tables, and is never edited once it is released. A file in
// functions holds the functions of its name, and is edited in place: [Migrate] replaces all functions if the schema has others, in
// the transaction of the last migration. A migration drops a function that goes, or whose parameters or result change.
// [Tables], [Types] and [Routines] list what belongs to prescient: an application may have objects of its own in the schema.
//
// The .sql files are valid as they stand. They name the schema "prescient"; [Statement.In] rewrites them for another.
//
// Subpackages: embedded runs a private PostgreSQL where no database URL is given, pgtest gives every test a database
// of its own.
package sql
