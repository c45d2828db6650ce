package view

import (
	"fmt"

	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// OfSchedule says why the check of a schedule is not changed: that would silently end or move the schedule.
// An empty id stands for any schedule. self is how to call the binary.
func OfSchedule(self, id string) string {
	return fmt.Sprintf("nothing was changed: the checks of job %q belong to schedules; use: %s schedules pause %s, or: "+
		"%[2]s schedules delete %[3]s", schedule.JobExec, self, wordOr(id, "ID"))
}

// OfFailedSchedule says why failed checks of schedules are not put back: they could publish an event a second
// time.
func OfFailedSchedule(self, id string) string {
	return fmt.Sprintf("nothing was put back: the checks of job %q belong to schedules; "+
		"give a schedule a new check with: %s schedules resume %s, and publish what it has missed with: "+
		"%[2]s schedules backfill %[3]s", schedule.JobExec, self, wordOr(id, "ID"))
}

// wordOr returns a text as a word of a shell, or another word for an empty text.
func wordOr(text, other string) string {
	if text == "" {
		return other
	}
	return spoken.Word(text)
}
