package health

import (
	"fmt"

	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/ledger"
)

// forgotten tells a job that was paused for a while and not resumed.
func forgotten(r *Report, threshold float64) (list []Finding) {
	for _, f := range r.forgotten {
		is := "job"
		if f.OfRule {
			is = "rule"
		}
		list = append(list, of(f.JobExec, r.found(
			r.Now.Sub(f.Since).Seconds() > threshold, is+"s resume "+spoken.Word(f.JobExec),
			"%s %s is paused since %s, by %s, and its rows wait, the oldest since slot %s",
			is, f.JobExec, r.since(f.Since), f.By, clock(f.Due)))...)
	}
	return append(list, forgottenSchedules(r, threshold)...)
}

// forgottenSchedules tells schedules that were paused for a while, and have missed an instant since.
func forgottenSchedules(r *Report, threshold float64) []Finding {
	var ids, texts []string
	for _, s := range r.schedules {
		if r.Now.Sub(s.Since).Seconds() <= threshold || !missedInstant(s, r) {
			continue
		}
		ids = append(ids, s.ID)
		texts = append(texts, fmt.Sprintf("%s (since %s, by %s)", s.ID, r.since(s.Since), s.By))
	}
	if len(ids) == 0 {
		return nil
	}
	return r.found(true, "schedules resume "+spoken.Word(ids[0]), "%s paused, and left out instants since: %s",
		spoken.Count(len(ids), "schedule is", "schedules are"), spoken.List(texts))
}

// missedInstant reports whether a schedule would have had an instant since it was paused.
func missedInstant(s ledger.PausedSchedule, r *Report) bool {
	all, err := schedule.Preview(schedule.Spec{
		ID: s.ID, Crontab: s.Crontab, Timezone: s.Timezone, Anchor: s.Anchor, Spread: s.Spread, Start: s.Start, End: s.End,
		Exclude: s.Exclude,
	}, r.Grid, s.Since, r.Now)
	if err != nil {
		return true // a schedule that cannot be read has to be looked at, too
	}
	for range all {
		return true
	}
	return false
}
