package sql

import (
	"embed"
	"fmt"
	"strings"
	"sync"
	"time"
)

//go:embed statements/*.sql
var statements embed.FS

// Statement is an SQL text in which names are qualified with the default schema and parameters are
// positional. Most are one .sql file each in the folder statements, which says what the statement
// does.
type Statement struct{ file, text string }

// The statements, by file name.
var (
	ActionEnd             = file("action_end")
	ActionInsert          = file("action_insert")
	ActionLast            = file("action_last")
	AdviseSample          = file("advise_sample")
	AdvisoryHolder        = file("advisory_holder")
	AdviseSince           = file("advise_since")
	BoardActions          = file("board_actions")
	BoardAhead            = file("board_ahead")
	BoardCells            = file("board_cells")
	BoardConsumers        = file("board_consumers")
	BoardEvents           = file("board_events")
	BoardJob              = file("board_job")
	BoardJobs             = file("board_jobs")
	BoardMisfires         = file("board_misfires")
	BoardRetry            = file("board_retry")
	BoardSlot             = file("board_slot")
	BoardWaiting          = file("board_waiting")
	Cancel                = file("cancel")
	CancelCount           = file("cancel_count")
	CancelEntity          = file("cancel_entity")
	CancelMany            = file("cancel_many")
	CancelSuppressed      = file("cancel_suppressed")
	CheckBegin            = file("check_begin")
	CheckNumber           = file("check_number")
	CheckRole             = file("check_role")
	CheckSame             = file("check_same")
	ClaimFence            = file("claim_fence")
	ClaimList             = file("claim_list")
	ClaimOrphans          = file("claim_orphans")
	ClaimRelease          = file("claim_release")
	ClaimRenew            = file("claim_renew")
	ClaimRows             = file("claim_rows")
	ClaimTakeOver         = file("claim_take_over")
	DoctorClock           = file("doctor_clock")
	DoctorCollation       = file("doctor_collation")
	DoctorHolders         = file("doctor_holders")
	DoctorJobs            = file("doctor_jobs")
	DoctorMonths          = file("doctor_months")
	DoctorRights          = file("doctor_rights")
	DoctorRoom            = file("doctor_room")
	DoctorRowSecurity     = file("doctor_row_security")
	DoctorSessions        = file("doctor_sessions")
	DoctorSettings        = file("doctor_settings")
	DoctorStandby         = file("doctor_standby")
	DoctorTables          = file("doctor_tables")
	EngineSigns           = file("engine_signs")
	EngineVersion         = file("engine_version")
	Enqueue               = file("enqueue")
	EnqueueCopy           = file("enqueue_copy")
	EnqueueLock           = file("enqueue_lock")
	EnqueueMany           = file("enqueue_many")
	EntityKinds           = file("entity_kinds")
	EventAck              = file("event_ack")
	EventAhead            = file("event_ahead")
	EventConsumers        = file("event_consumers")
	EventDeadAccept       = file("event_dead_accept")
	EventDeadAgain        = file("event_dead_again")
	EventDeadCount        = file("event_dead_count")
	EventDeadDiscard      = file("event_dead_discard")
	EventDeadHold         = file("event_dead_hold")
	EventDeadKnown        = file("event_dead_known")
	EventDeadList         = file("event_dead_list")
	EventDeadPrune        = file("event_dead_prune")
	EventDeadRefuse       = file("event_dead_refuse")
	EventDeadSent         = file("event_dead_sent")
	EventDeadSubjects     = file("event_dead_subjects")
	EventDeadTake         = file("event_dead_take")
	EventForget           = file("event_forget")
	EventInsert           = file("event_insert")
	EventLost             = file("event_lost")
	EventNewest           = file("event_newest")
	EventPrune            = file("event_prune")
	EventRead             = file("event_read")
	FunctionsApplied      = file("functions_applied")
	FunctionsHere         = file("functions_here")
	ForecastBlocks        = file("forecast_blocks")
	ForecastHistory       = file("forecast_history")
	ForecastJobs          = file("forecast_jobs")
	ForecastLedger        = file("forecast_ledger")
	ForecastSlots         = file("forecast_slots")
	ForecastJournals      = file("forecast_journals")
	GroupRead             = file("group_read")
	GroupTry              = file("group_try")
	GroupUnreadable       = file("group_unreadable")
	HistoryList           = file("history_list")
	HistoryMonths         = file("history_months")
	HistoryPrune          = file("history_prune")
	HistoryRetry          = file("history_retry")
	HistoryStats          = file("history_stats")
	JobKnown              = file("job_known")
	JobList               = file("job_list")
	JobNames              = file("job_names")
	JobNumbers            = file("job_numbers")
	JobRegister           = file("job_register")
	JobPause              = file("job_pause")
	JobTell               = file("job_tell")
	JobPaused             = file("job_paused")
	JobResume             = file("job_resume")
	JobShow               = file("job_show")
	JobEnd                = file("job_end")
	JobRelated            = file("job_related")
	LedgerAhead           = file("ledger_ahead")
	LedgerBegin           = file("ledger_begin")
	LedgerFill            = file("ledger_fill")
	LedgerJobs            = file("ledger_jobs")
	LedgerLate            = file("ledger_late")
	LedgerSlow            = file("ledger_slow")
	LedgerGaps            = file("ledger_gaps")
	LedgerPrune           = file("ledger_prune")
	LedgerRewind          = file("ledger_rewind")
	LedgerSkip            = file("ledger_skip")
	LedgerTrouble         = file("ledger_trouble")
	LimitRelease          = file("limit_release")
	LimitPace             = file("limit_pace")
	LimitRenew            = file("limit_renew")
	LimitAcquire          = file("limit_acquire")
	LockHolders           = file("lock_holders")
	MetricsBlocking       = file("metrics_blocking")
	MetricsOutbox         = file("metrics_outbox")
	MetricsRows           = file("metrics_rows")
	MetricsSlots          = file("metrics_slots")
	MigrationApplied      = file("migration_applied")
	NextSlot              = file("next_slot")
	PageRead              = file("page_read")
	PageUnreadable        = file("page_unreadable")
	PastSlots             = file("past_slots")
	PeriodicLock          = file("periodic_lock")
	PeriodicRows          = file("periodic_rows")
	PushBack              = file("push_back")
	ReadSettings          = file("read_settings")
	RecordFind            = file("record_find")
	Reschedule            = file("reschedule")
	RoleHeld              = file("role_held")
	RolesLose             = file("roles_lose")
	RolesMade             = file("roles_made")
	RuleColumns           = file("rule_columns")
	RuleExpression        = file("rule_expression")
	RuleRefused           = file("rule_refused")
	RuleReader            = file("rule_reader")
	RuleRole              = file("rule_role")
	RuleSummary           = file("rule_summary")
	RuleTable             = file("rule_table")
	RuleTables            = file("rule_tables")
	RuleLabels            = file("rule_labels")
	RuleBeside            = file("rule_beside")
	RuleChange            = file("rule_change")
	RuleDelete            = file("rule_delete")
	RuleDone              = file("rule_done")
	RuleEnqueue           = file("rule_enqueue")
	RuleFaults            = file("rule_faults")
	RuleFiredSteps        = file("rule_fired_steps")
	RuleForget            = file("rule_forget")
	RuleGet               = file("rule_get")
	RuleHolders           = file("rule_holders")
	RuleInsert            = file("rule_insert")
	RulePosition          = file("rule_position")
	RulePrune             = file("rule_prune")
	RulePruneCount        = file("rule_prune_count")
	RuleRemoving          = file("rule_removing")
	RuleRetime            = file("rule_retime")
	RuleTriggers          = file("rule_triggers")
	RuleWriters           = file("rule_writers")
	RowAttempts           = file("row_attempts")
	RuleFire              = file("rule_fire")
	RuleFiredKey          = file("rule_fired_key")
	RuleFiredLast         = file("rule_fired_last")
	RuleFiredRead         = file("rule_fired_read")
	RuleLock              = file("rule_lock")
	RuleMoved             = file("rule_moved")
	RuleNames             = file("rule_names")
	RowHolder             = file("row_holder")
	RowRecord             = file("row_record")
	RowWait               = file("row_wait")
	RowsFinish            = file("rows_finish")
	RowsFinishAlike       = file("rows_finish_alike")
	RowsFinishApart       = file("rows_finish_apart")
	RowsLeft              = file("rows_left")
	RowsLock              = file("rows_lock")
	RowsMove              = file("rows_move")
	RowsMoveAlike         = file("rows_move_alike")
	ScheduleAhead         = file("schedule_ahead")
	ScheduleBackfill      = file("schedule_backfill")
	ScheduleBackfillFence = file("schedule_backfill_fence")
	ScheduleBlocks        = file("schedule_blocks")
	ScheduleCancel        = file("schedule_cancel")
	ScheduleDelete        = file("schedule_delete")
	ScheduleDrop          = file("schedule_state")
	ScheduleDue           = file("schedule_due")
	ScheduleIDs           = file("schedule_ids")
	ScheduleInsert        = file("schedule_insert")
	ScheduleList          = file("schedule_list")
	ScheduleLock          = file("schedule_lock")
	ScheduleNormal        = file("schedule_normal")
	SchedulePast          = file("schedule_past")
	SchedulePublished     = file("schedule_published")
	ScheduleSample        = file("schedule_sample")
	ScheduleUpdate        = file("schedule_update")
	ScheduleWait          = file("schedule_wait")
	SchemaCheck           = file("schema_check")
	SchemaVersionIs       = file("schema_version")
	SetWidth              = file("set_width")
	SlotClose             = file("slot_close")
	StoreSchemas          = file("store_schemas")
	SlotJobs              = file("slot_jobs")
	SlotList              = file("slot_list")
	SlotOpen              = file("slot_open")
	SlotUnsettle          = file("slot_unsettle")
	SlotWaiting           = file("slot_waiting")
	StoreBatches          = file("store_batches")
	StoreClaim            = file("store_claim")
	StoreDrain            = file("store_drain")
	StoreDrop             = file("store_drop")
	StoreForget           = file("store_forget")
	StoreGive             = file("store_give")
	StoreIdentify         = file("store_identify")
	StoreNotes            = file("store_notes")
	StoreRead             = file("store_read")
	StoreReceive          = file("store_receive")
	StoreRows             = file("store_rows")
	StoreSchedules        = file("store_schedules")
	StoreSettle           = file("store_settle")
	StoreState            = file("store_state")
	StoreUndrain          = file("store_undrain")
	Why                   = file("why")
)

// SlotIndexOnly makes the planner of a transaction read the slot index in its order. Statistics do
// not know a new slot, or misjudge a filter. The planner would then sort a whole job for every
// page, or the whole table if most of it is due at once. That costs ten times as much and more, and
// it steps over dead entries without marking them. Do not use it in a transaction that also runs an
// application's statements.
var SlotIndexOnly = NewStatement("call prescient.force_slot_index()")

// WaitForLocks sets how long the statements after it wait for a lock. It rounds to whole
// milliseconds.
func WaitForLocks(most time.Duration) Statement {
	return NewStatement(fmt.Sprintf("call prescient.wait_for_locks('%d')", most.Milliseconds()))
}

// NewStatement returns a statement that has no file.
func NewStatement(text string) Statement { return Statement{text: text} }

// In returns the text of the statement for a schema.
func (s Statement) In(schema Schema) string {
	if s.file == "" {
		return schema.qualify(s.text)
	}
	return schema.qualify(textOf(s.file))
}

func file(name string) Statement { return Statement{file: name} }

// texts caches the files that were read: a process that cron starts needs few of them.
var texts sync.Map

func textOf(name string) string {
	if text, ok := texts.Load(name); ok {
		return text.(string)
	}
	content, err := statements.ReadFile("statements/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	var lines strings.Builder
	for line := range strings.Lines(string(content)) {
		// a parameter written into the statement must not land in a comment
		if !strings.HasPrefix(strings.TrimSpace(line), "--") {
			lines.WriteString(line)
		}
	}
	text := expand(strings.TrimSpace(lines.String()))
	texts.Store(name, text)
	return text
}
