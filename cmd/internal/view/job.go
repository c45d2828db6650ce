package view

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/ledger"
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

// OverdueSince returns the first slot with rows of a job that is left to catch-up, or nil. The current slot is
// left to its run until a run has opened it.
func OverdueSince(
	ctx context.Context, db jobs.DB, c *jobs.Client, l *ledger.Ledger, job string,
) (*time.Time, error) {
	current := l.Grid().Floor(l.Now())
	until := l.Grid().Next(current)
	if _, err := l.Show(ctx, current); errors.Is(err, ledger.ErrNoSlot) {
		until = current
	} else if err != nil {
		return nil, err
	}
	list, _, err := admin.New(c).ListPage(ctx, db, admin.Filter{JobExec: job, To: until, Limit: 1})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0].NextCheckAt, nil
}
