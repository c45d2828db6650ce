package sql

import (
	"embed"
	"strings"
)

//go:embed statements/*.sql
var statements embed.FS

// Statement is the text of one .sql file of the statements folder, in which names are qualified with the default
// schema and parameters are positional. Each file says what its statement does and what its parameters are.
type Statement string

// The statements, by file name.
var (
	Cancel                = read("cancel")
	CancelEntity          = read("cancel_entity")
	CheckBegin            = read("check_begin")
	CheckMark             = read("check_mark")
	CheckPrepared         = read("check_prepared")
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
	Enqueue               = read("enqueue")
	EnqueueCopy           = read("enqueue_copy")
	EnqueueMany           = read("enqueue_many")
	EventAck              = read("event_ack")
	EventConsumers        = read("event_consumers")
	EventForget           = read("event_forget")
	EventInsert           = read("event_insert")
	EventLost             = read("event_lost")
	EventPrune            = read("event_prune")
	EventRead             = read("event_read")
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
	RowsLock              = read("rows_lock")
	RowsMove              = read("rows_move")
	RowsMoveAlike         = read("rows_move_alike")
	ScheduleBackfill      = read("schedule_backfill")
	ScheduleBackfillFence = read("schedule_backfill_fence")
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
	ScheduleUpdate        = read("schedule_update")
	ScheduleWait          = read("schedule_wait")
	SchemaCheck           = read("schema_check")
	SchemaVersionIs       = read("schema_version")
	SetWidth              = read("set_width")
	SlotClose             = read("slot_close")
	SlotJobs              = read("slot_jobs")
	SlotList              = read("slot_list")
	SlotOpen              = read("slot_open")
	SlotUnsettle          = read("slot_unsettle")
	SlotWaiting           = read("slot_waiting")
	Why                   = read("why")
)

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
