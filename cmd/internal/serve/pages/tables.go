package pages

import (
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/scheduleapi"
)

// jobFields are the columns of lists of jobs, which board.JobsOrder orders.
var jobFields = []field[board.JobLine]{
	{name: "job_exec", text: "Job", compare: ordered},
	{name: "state", text: "State", compare: ordered},
	{name: "checked", text: "Checked", number: true, compare: ordered},
	{name: "failed", text: "Failed", number: true, compare: ordered},
	{name: "gave_up", text: "Given up", number: true, compare: ordered},
	{name: "late", text: "Late", number: true, compare: ordered},
	{name: "lateness_p50", text: "Median lateness", number: true, compare: ordered},
	{name: "lateness_p99", text: "p99 lateness", number: true, compare: ordered},
	{text: "Last error"},
}

// ordered stands for the order of the database.
func ordered(_, _ board.JobLine) int { return 0 }

var waitingFields = []field[view.Check]{
	{name: "slot", text: "Slot", compare: byTime(func(c view.Check) *time.Time { return &c.NextCheckAt })},
	{name: "state", text: "State", compare: by(func(c view.Check) string { return string(c.State) })},
	{
		name: "entity", text: "Entity",
		compare: byEntity(func(c view.Check) (string, string) { return c.EntityName, c.EntityKey }),
	},
	{name: "job", text: "Job", compare: by(func(c view.Check) string { return c.JobExec })},
	{name: "checks", text: "Checks", number: true, compare: by(func(c view.Check) int { return c.CheckCount })},
	{name: "errors", text: "Errors", number: true, compare: by(func(c view.Check) int { return c.ErrorCount })},
	{name: "error", text: "Last error", compare: by(func(c view.Check) string { return c.LastError })},
}

var endedFields = []field[view.Ended]{
	{name: "ended", text: "Ended", compare: byTime(func(e view.Ended) *time.Time { return &e.FinishedAt })},
	{name: "outcome", text: "Outcome", compare: by(func(e view.Ended) string { return string(e.Outcome) })},
	{
		name: "entity", text: "Entity",
		compare: byEntity(func(e view.Ended) (string, string) { return e.EntityName, e.EntityKey }),
	},
	{name: "job", text: "Job", compare: by(func(e view.Ended) string { return e.JobExec })},
	{name: "slot", text: "Slot", compare: byTime(func(e view.Ended) *time.Time { return &e.Slot })},
	{name: "late", text: "Late", number: true, compare: by(func(e view.Ended) int64 { return int64(e.Lateness) })},
	{name: "took", text: "Run time", number: true, compare: by(func(e view.Ended) int64 { return int64(e.Duration) })},
	{name: "error", text: "Error", compare: by(view.Ended.Why)},
}

var scheduleFields = []field[scheduleapi.View]{
	{name: "id", text: "Schedule", compare: by(func(s scheduleapi.View) string { return s.ID })},
	{name: "state", text: "State", compare: by(func(s scheduleapi.View) string { return scheduleMark(s).Text })},
	{text: "Crontab"},
	{name: "zone", text: "Zone", compare: by(func(s scheduleapi.View) string { return s.Timezone })},
	{name: "last", text: "Last instant", compare: byTime(func(s scheduleapi.View) *time.Time { return &s.Last })},
	{name: "next", text: "Next instant", compare: byTime(func(s scheduleapi.View) *time.Time { return s.Next })},
	{name: "dropped", text: "Dropped", number: true, compare: by(func(s scheduleapi.View) int64 { return s.Dropped })},
	{name: "error", text: "Last error", compare: by(scheduleapi.View.PresentError)},
}

var ruleFields = []field[view.Rule]{
	{name: "rule", text: "Rule", compare: by(func(r view.Rule) string { return r.Name })},
	{name: "table", text: "Table", compare: by(func(r view.Rule) string { return r.Table })},
	{text: "Steps"},
	{name: "state", text: "State", compare: by(view.Rule.Word)},
	{name: "applied", text: "Applied", compare: byTime(func(r view.Rule) *time.Time { return r.AppliedAt })},
}

var alertFields = []field[view.Alert]{
	{name: "finding", text: "Finding", compare: by(func(a view.Alert) string { return a.Finding })},
	{name: "since", text: "Since", compare: byTime(func(a view.Alert) *time.Time { return a.Since })},
	{name: "told", text: "Told", compare: byTime(func(a view.Alert) *time.Time { return a.ToldAt })},
	{name: "until", text: "Silenced until", compare: byTime(func(a view.Alert) *time.Time { return a.SilencedUntil })},
	{text: "Because"},
}

var deadFields = []field[view.DeadLetter]{
	{name: "since", text: "Since", compare: byTime(func(d view.DeadLetter) *time.Time { return &d.DeadAt })},
	{name: "destination", text: "Destination", compare: by(func(d view.DeadLetter) string { return d.Destination })},
	{name: "refused", text: "Refused", number: true, compare: by(func(d view.DeadLetter) int { return d.Refusals })},
	{name: "subject", text: "Subject", compare: by(func(d view.DeadLetter) string { return d.Subject })},
	{name: "id", text: "Id", compare: by(func(d view.DeadLetter) string { return d.ID })},
	{name: "error", text: "Error", compare: by(func(d view.DeadLetter) string { return d.Error })},
}

var slotJobFields = []field[board.SlotJob]{
	{name: "job", text: "Job", compare: by(func(j board.SlotJob) string { return j.JobExec })},
	{name: "rows", text: "Rows", number: true, compare: by(func(j board.SlotJob) int64 { return j.Planned })},
	{name: "finished", text: "Finished", number: true, compare: by(func(j board.SlotJob) int64 { return j.Finished })},
	{name: "again", text: "Rescheduled", number: true, compare: by(func(j board.SlotJob) int64 { return j.Rescheduled })},
	{name: "failed", text: "Failed", number: true, compare: by(func(j board.SlotJob) int64 { return j.Failed })},
	{name: "late", text: "Late", number: true, compare: by(func(j board.SlotJob) int64 { return j.Late })},
	{name: "first", text: "First", compare: byTime(func(j board.SlotJob) *time.Time { return j.FirstAt })},
	{name: "last", text: "Last", compare: byTime(func(j board.SlotJob) *time.Time { return j.LastAt })},
	{
		name: "spent", text: "Run time", title: "of its checks, added up", number: true,
		compare: by(func(j board.SlotJob) int64 { return int64(j.Spent) }),
	},
	{text: "Error"},
}

var jobCellFields = []field[board.JobCell]{
	{name: "slot", text: "Slot", compare: byTime(func(s board.JobCell) *time.Time { return &s.Slot })},
	{name: "rows", text: "Rows", number: true, compare: by(func(s board.JobCell) int64 { return s.Checked() })},
	{name: "finished", text: "Finished", number: true, compare: by(func(s board.JobCell) int64 { return s.Finished })},
	{name: "again", text: "Rescheduled", number: true, compare: by(func(s board.JobCell) int64 { return s.Rescheduled })},
	{name: "failed", text: "Failed", number: true, compare: by(func(s board.JobCell) int64 { return s.Failed })},
	{name: "late", text: "Late", number: true, compare: by(func(s board.JobCell) int64 { return s.Late })},
	{
		name: "took", text: "Took", title: "from the opening of the slot to the last row of this job", number: true,
		compare: by(func(s board.JobCell) int64 { return int64(s.Took) }),
	},
	{name: "rate", text: "Rows a second", number: true, compare: by(func(s board.JobCell) float64 { return s.Rate })},
}

var dayFields = []field[daySum]{
	{name: "date", text: "Day", compare: by(func(d daySum) string { return d.Day })},
	{name: "run", text: "Slots run", number: true, compare: by(func(d daySum) int64 { return d.Run })},
	{name: "caught-up", text: "By catch-up", number: true, compare: by(func(d daySum) int64 { return d.CaughtUp })},
	{name: "missed", text: "Missed", number: true, compare: by(func(d daySum) int64 { return d.Missed })},
	{name: "rows", text: "Rows", number: true, compare: by(func(d daySum) int64 { return d.Checked })},
	{name: "failed", text: "Failed", number: true, compare: by(func(d daySum) int64 { return d.Failed })},
	{name: "took", text: "The longest took", number: true, compare: by(func(d daySum) time.Duration { return d.Took })},
	{text: "What is wrong"},
}

var cellFields = []field[bar]{
	{name: "slot", text: "Slot", compare: byTime(func(b bar) *time.Time { return &b.Slot })},
	{name: "state", text: "State", compare: by(func(b bar) string { return stateWords[b.State] })},
	{name: "rows", text: "Rows", number: true, compare: by(func(b bar) int64 { return b.Checked })},
	{name: "failed", text: "Failed", number: true, compare: by(func(b bar) int64 { return b.Failed })},
	{
		name: "took", text: "Took", title: "how long runners worked on the slot", number: true,
		compare: by(func(b bar) int64 { return int64(b.Took) }),
	},
	{name: "wrong", text: "What is wrong", compare: by(bar.Wrong)},
}
