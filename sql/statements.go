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
	Cancel           = read("cancel")
	CancelEntity     = read("cancel_entity")
	Enqueue          = read("enqueue")
	EnqueueCopy      = read("enqueue_copy")
	EnqueueMany      = read("enqueue_many")
	EventAck         = read("event_ack")
	EventConsumers   = read("event_consumers")
	EventForget      = read("event_forget")
	EventInsert      = read("event_insert")
	EventPrune       = read("event_prune")
	EventRead        = read("event_read")
	HistoryList      = read("history_list")
	HistoryMonths    = read("history_months")
	HistoryPrune     = read("history_prune")
	HistoryRetry     = read("history_retry")
	HistoryShow      = read("history_show")
	HistoryStats     = read("history_stats")
	JobList          = read("job_list")
	JobPause         = read("job_pause")
	JobPaused        = read("job_paused")
	JobResume        = read("job_resume")
	JobShow          = read("job_show")
	LeaseClaim       = read("lease_claim")
	LeaseFence       = read("lease_fence")
	LeaseList        = read("lease_list")
	LeaseRecord      = read("lease_record")
	LeaseRelease     = read("lease_release")
	LeaseRenew       = read("lease_renew")
	LeaseWait        = read("lease_wait")
	LedgerBegin      = read("ledger_begin")
	LedgerFill       = read("ledger_fill")
	LedgerGaps       = read("ledger_gaps")
	LedgerPrune      = read("ledger_prune")
	LedgerSkip       = read("ledger_skip")
	LedgerTrouble    = read("ledger_trouble")
	MigrationApplied = read("migration_applied")
	NextSlot         = read("next_slot")
	GroupLock        = read("group_lock")
	PageRead         = read("page_read")
	PageReadGroup    = read("page_read_group")
	PageReadGroups   = read("page_read_groups")
	PastSlots        = read("past_slots")
	PushBack         = read("push_back")
	Reschedule       = read("reschedule")
	RowsFinish       = read("rows_finish")
	RowsFinishAlike  = read("rows_finish_alike")
	RowsLock         = read("rows_lock")
	RowsMove         = read("rows_move")
	RowsMoveAlike    = read("rows_move_alike")
	ScheduleCancel   = read("schedule_cancel")
	ScheduleDelete   = read("schedule_delete")
	ScheduleDrop     = read("schedule_drop")
	ScheduleDue      = read("schedule_due")
	ScheduleInsert   = read("schedule_insert")
	ScheduleList     = read("schedule_list")
	ScheduleLock     = read("schedule_lock")
	ScheduleNormal   = read("schedule_normal")
	ScheduleUpdate   = read("schedule_update")
	ScheduleWait     = read("schedule_wait")
	SchemaCheck      = read("schema_check")
	SetWidth         = read("set_width")
	ReadSettings     = read("read_settings")
	ShardClose       = read("shard_close")
	SlotAsk          = read("slot_ask")
	SlotAsked        = read("slot_asked")
	SlotClose        = read("slot_close")
	SlotHorizon      = read("slot_horizon")
	SlotList         = read("slot_list")
	SlotLock         = read("slot_lock")
	SlotOpen         = read("slot_open")
	SlotReopen       = read("slot_reopen")
	SlotSettled      = read("slot_settled")
	SlotShow         = read("slot_show")
	SlotState        = read("slot_state")
	SlotWaiting      = read("slot_waiting")
)

// In returns the statement for a schema.
func (s Statement) In(schema Schema) string { return schema.qualify(string(s)) }

func read(name string) Statement {
	text, err := statements.ReadFile("statements/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	return Statement(strings.TrimSpace(string(text)))
}
