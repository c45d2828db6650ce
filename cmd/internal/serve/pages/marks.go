package pages

import (
	"strconv"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/internal/scheduleapi"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/ledger"
)

// jobMark returns the state of a job in some words.
func jobMark(j board.JobLine) verdict {
	failed := counted(ledger.Count{N: j.LastFailed}, "check", "checks") + " of its last slot failed"
	switch j.State {
	case board.JobUnserved:
		return verdict{Mark: "bad", Text: "unserved: no run of the last 7 days had it"}
	case board.JobOverdue:
		return verdict{Mark: "bad", Text: counted(j.OverdueCount(), "row is", "rows are") + " overdue"}
	case board.JobFailing:
		return verdict{Mark: "bad", Text: "failing: " + failed}
	case board.JobFailed:
		return verdict{Mark: "warn", Text: failed}
	case board.JobGaveUp:
		return verdict{Mark: "warn", Text: "gave up " + plural(j.GaveUp, "row", "rows")}
	case board.JobLate, board.JobPaused:
		return verdict{Mark: "warn", Text: string(j.State)}
	case board.JobIdle:
		return verdict{Mark: "idle", Text: "idle"}
	}
	return verdict{Mark: "ok", Text: "ok"}
}

func scheduleMark(s scheduleapi.View) verdict {
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
