package pages

import (
	"strconv"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/jobs/schedule/httpapi"
	"github.com/prescient-go/prescient/slots/ledger"
)

// jobMark returns the state of a job in a word.
func jobMark(of any) verdict {
	var j ledger.JobStatus
	var paused bool
	var overdue ledger.Count
	switch v := of.(type) {
	case ledger.JobStatus:
		j = v
	case board.JobLine:
		j, paused, overdue = v.JobStatus, v.Paused != nil, v.OverdueCount()
	}
	switch {
	case paused:
		return verdict{Mark: "warn", Text: "paused"}
	case j.Unregistered:
		return verdict{Mark: "bad", Text: "unregistered: no run has it"}
	case overdue.N > 0:
		return verdict{Mark: "bad", Text: counted(overdue, "row is", "rows are") + " overdue"}
	case j.LastFailed > 0 && j.LastFailed == j.LastChecked:
		return verdict{Mark: "bad", Text: "all checks of its last slot failed"}
	case j.LastFailed > 0:
		return verdict{Mark: "warn", Text: "some checks of its last slot failed"}
	case j.GaveUp > 0:
		return verdict{Mark: "warn", Text: "gave up rows"}
	case j.SLA > 0 && j.LastLate > 0:
		return verdict{Mark: "warn", Text: "late"}
	case j.Checked == 0:
		return verdict{Mark: "idle", Text: "idle"}
	}
	return verdict{Mark: "ok", Text: "ok"}
}

func scheduleMark(s httpapi.View) verdict {
	switch {
	case s.State == schedule.Paused:
		return verdict{Mark: "warn", Text: "paused"}
	case s.ErrorCount > 0:
		return verdict{Mark: "bad", Text: "fails"}
	case s.State == schedule.Active && s.PublishingPausedAt != nil:
		return verdict{Mark: "warn", Text: "publishing paused"}
	case s.State == schedule.Active:
		return verdict{Mark: "ok", Text: "active"}
	}
	return verdict{Mark: "idle", Text: string(s.State)}
}

func endMark(o jobs.Outcome) verdict {
	mark := map[jobs.Outcome]string{
		jobs.OutcomeDone: "ok", jobs.OutcomeFailed: "bad", jobs.OutcomeCancelled: "idle",
		jobs.OutcomeReplaced: "idle",
	}[o]
	if mark == "" {
		mark = "warn"
	}
	return verdict{Mark: mark, Text: words(o)}
}

func outcomeMark(outcome string) verdict {
	return verdict{Mark: map[string]string{
		board.Running: "run", board.Succeeded: "ok", board.Failed: "bad",
		board.Stopped: "warn",
	}[outcome], Text: outcome}
}

// rate formats rows a second.
func rate(r float64) string {
	if r >= 100 {
		return num(int64(r))
	}
	return strconv.FormatFloat(r, 'f', 1, 64)
}
