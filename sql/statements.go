package sql

import (
	"embed"
	"fmt"
	"strings"
	"time"
)

//go:embed statements/*.sql
var statements embed.FS

// Statement is the text of one .sql file of the statements folder, in which names are qualified with the default
// schema and parameters are positional. Each file says what its statement does and what its parameters are.
type Statement string

// The statements, by file name.
var (
	ActionEnd             = read("action_end")
	ActionInsert          = read("action_insert")
	ActionLast            = read("action_last")
	BoardActions          = read("board_actions")
	BoardAhead            = read("board_ahead")
	BoardCells            = read("board_cells")
	BoardConsumers        = read("board_consumers")
	BoardEvents           = read("board_events")
	BoardJob              = read("board_job")
	BoardJobs             = read("board_jobs")
	BoardMisfires         = read("board_misfires")
	BoardRetry            = read("board_retry")
	BoardSlot             = read("board_slot")
	BoardWaiting          = read("board_waiting")
	Cancel                = read("cancel")
	CancelEntity          = read("cancel_entity")
	CheckBegin            = read("check_begin")
	CheckNumber           = read("check_number")
	CheckPrepared         = read("check_prepared")
	CheckRole             = read("check_role")
	CheckSame             = read("check_same")
	ClaimFence            = read("claim_fence")
	ClaimList             = read("claim_list")
	ClaimRelease          = read("claim_release")
	ClaimRenew            = read("claim_renew")
	ClaimRows             = read("claim_rows")
	ClaimTakeOver         = read("claim_take_over")
	DoctorClock           = read("doctor_clock")
	DoctorHolders         = read("doctor_holders")
	DoctorJobs            = read("doctor_jobs")
	DoctorMonths          = read("doctor_months")
	DoctorRights          = read("doctor_rights")
	DoctorRoom            = read("doctor_room")
	DoctorSessions        = read("doctor_sessions")
	DoctorSettings        = read("doctor_settings")
	DoctorStandby         = read("doctor_standby")
	DoctorTables          = read("doctor_tables")
	EngineSigns           = read("engine_signs")
	EngineVersion         = read("engine_version")
	Enqueue               = read("enqueue")
	EnqueueCopy           = read("enqueue_copy")
	EnqueueLock           = read("enqueue_lock")
	EnqueueMany           = read("enqueue_many")
	EventAck              = read("event_ack")
	EventConsumers        = read("event_consumers")
	EventForget           = read("event_forget")
	EventInsert           = read("event_insert")
	EventLost             = read("event_lost")
	EventPrune            = read("event_prune")
	EventRead             = read("event_read")
	ForecastBlocks        = read("forecast_blocks")
	ForecastHistory       = read("forecast_history")
	ForecastJobs          = read("forecast_jobs")
	ForecastLedger        = read("forecast_ledger")
	ForecastSlots         = read("forecast_slots")
	ForecastTraces        = read("forecast_traces")
	GroupOthers           = read("group_others")
	GroupRead             = read("group_read")
	GroupTry              = read("group_try")
	HistoryList           = read("history_list")
	HistoryMonths         = read("history_months")
	HistoryPrune          = read("history_prune")
	HistoryRetry          = read("history_retry")
	HistoryShow           = read("history_show")
	HistoryStats          = read("history_stats")
	JobKnown              = read("job_known")
	JobList               = read("job_list")
	JobNames              = read("job_names")
	JobNumbers            = read("job_numbers")
	JobRegister           = read("job_register")
	JobPause              = read("job_pause")
	JobPaused             = read("job_paused")
	JobResume             = read("job_resume")
	JobShow               = read("job_show")
	JobEnd                = read("job_end")
	JobRelated            = read("job_related")
	LearnBegin            = read("learn_begin")
	LearnCurves           = read("learn_curves")
	LearnForget           = read("learn_forget")
	LearnSample           = read("learn_sample")
	LearnSince            = read("learn_since")
	LearnWrite            = read("learn_write")
	LedgerBegin           = read("ledger_begin")
	LedgerFill            = read("ledger_fill")
	LedgerJobs            = read("ledger_jobs")
	LedgerLate            = read("ledger_late")
	LedgerSlow            = read("ledger_slow")
	LedgerGaps            = read("ledger_gaps")
	LedgerPrune           = read("ledger_prune")
	LedgerSkip            = read("ledger_skip")
	LedgerTrouble         = read("ledger_trouble")
	LimitLeave            = read("limit_leave")
	LimitPace             = read("limit_pace")
	LimitTake             = read("limit_take")
	MetricsBlocking       = read("metrics_blocking")
	MetricsOutbox         = read("metrics_outbox")
	MetricsRows           = read("metrics_rows")
	MetricsSlots          = read("metrics_slots")
	MigrationApplied      = read("migration_applied")
	NextSlot              = read("next_slot")
	PageRead              = read("page_read")
	PastSlots             = read("past_slots")
	PushBack              = read("push_back")
	ReadSettings          = read("read_settings")
	RecordFind            = read("record_find")
	Reschedule            = read("reschedule")
	RolesMade             = read("roles_made")
	RowRecord             = read("row_record")
	RowWait               = read("row_wait")
	RowsFinish            = read("rows_finish")
	RowsFinishAlike       = read("rows_finish_alike")
	RowsFinishApart       = read("rows_finish_apart")
	RowsLock              = read("rows_lock")
	RowsMove              = read("rows_move")
	RowsMoveAlike         = read("rows_move_alike")
	ScheduleBackfill      = read("schedule_backfill")
	ScheduleBackfillFence = read("schedule_backfill_fence")
	ScheduleBlocks        = read("schedule_blocks")
	ScheduleCancel        = read("schedule_cancel")
	ScheduleDelete        = read("schedule_delete")
	ScheduleDrop          = read("schedule_drop")
	ScheduleDue           = read("schedule_due")
	ScheduleIDs           = read("schedule_ids")
	ScheduleInsert        = read("schedule_insert")
	ScheduleList          = read("schedule_list")
	ScheduleLock          = read("schedule_lock")
	ScheduleNormal        = read("schedule_normal")
	SchedulePublished     = read("schedule_published")
	ScheduleSample        = read("schedule_sample")
	ScheduleUpdate        = read("schedule_update")
	ScheduleWait          = read("schedule_wait")
	SchemaCheck           = read("schema_check")
	SchemaVersionIs       = read("schema_version")
	SetWidth              = read("set_width")
	SlotClose             = read("slot_close")
	StoreSchemas          = read("store_schemas")
	SlotJobs              = read("slot_jobs")
	SlotList              = read("slot_list")
	SlotOpen              = read("slot_open")
	SlotUnsettle          = read("slot_unsettle")
	SlotWaiting           = read("slot_waiting")
	StoreBatches          = read("store_batches")
	StoreClaim            = read("store_claim")
	StoreDrain            = read("store_drain")
	StoreDrop             = read("store_drop")
	StoreForget           = read("store_forget")
	StoreGive             = read("store_give")
	StoreIdentify         = read("store_identify")
	StoreNotes            = read("store_notes")
	StoreRead             = read("store_read")
	StoreReceive          = read("store_receive")
	StoreRows             = read("store_rows")
	StoreSchedules        = read("store_schedules")
	StoreSettle           = read("store_settle")
	StoreState            = read("store_state")
	StoreUndrain          = read("store_undrain")
	Why                   = read("why")
)

// SlotIndexOnly makes the planner of a transaction go through the slot index in its order. What is in a slot is no
// matter of statistics: for one that they have not seen, or a filter they misjudge, it would rather collect and sort
// a whole job for every page, or the table where most of it is due at once, at ten times the cost and more, and step
// over dead entries without marking them. It is not for a transaction that runs statements of the application, too.
const SlotIndexOnly Statement = "call prescient.slot_index_only()"

// WaitForLocks is how long the statements after it wait for a lock, in whole milliseconds.
func WaitForLocks(most time.Duration) Statement {
	return Statement(fmt.Sprintf("call prescient.wait_for_locks('%d')", most.Milliseconds()))
}

// In returns the statement for a schema.
func (s Statement) In(schema Schema) string { return schema.qualify(string(s)) }

func read(name string) Statement {
	text, err := statements.ReadFile("statements/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(strings.TrimSpace(line), "--") { // what is written into a statement must not land in a comment
			lines = append(lines, line)
		}
	}
	return Statement(strings.TrimSpace(strings.Join(lines, "")))
}
