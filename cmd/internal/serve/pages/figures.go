package pages

import (
	"fmt"
	"slices"
	"time"

	"github.com/prescient-go/prescient/jobs"
)

// figure is a number of a page that is not zero.
type figure struct {
	Name  string
	Value any // a text or HTML
	Note  string
	At    *time.Time // behind the note; nil: none
	Mark  string     // empty: it is no problem
	Path  string     // of a page that tells more; optional
}

// shown leaves out the figures that are zero.
func shown(list []figure) []figure {
	return slices.DeleteFunc(list, func(f figure) bool { return fmt.Sprint(f.Value) == "0" })
}

// figures returns the figures of the job in the last 24 hours.
func (p jobPage) figures() []figure {
	place := func(id string) string { return link("/job", "name", p.JobExec) + "#" + id }
	ended := func(o jobs.Outcome) string { return link("/ended", "job", p.JobExec, "outcome", o) }
	list := []figure{
		{Name: "Checked", Value: count(p.Checked), Note: "in 24 hours", Path: place("slots")},
		{Name: "Failed", Value: count(p.Failed), Note: percent(p.Failed, p.Checked), Mark: "bad", Path: place("errors")},
		{Name: "Given up", Value: count(p.GaveUp), Mark: "bad", Path: ended(jobs.OutcomeFailed)},
		{Name: "Ended as max_checks", Value: count(p.MaxChecks), Path: ended(jobs.OutcomeMaxChecks)},
	}
	if p.Checked > 0 {
		list = append(list, figure{
			Name: "Lateness", Value: dur(p.LatenessP50), Note: "median; p99 " + dur(p.LatenessP99), Path: place("slots"),
		})
	}
	if p.Checked > 0 && p.SLA > 0 {
		list = append(list, figure{
			Name: "SLA", Value: p.Kept(), Note: fmt.Sprintf("began within %s; %s did not", dur(p.SLA), num(p.Late)),
			Path: place("slots"),
		})
	}
	return shown(list)
}

// figures returns the figures of a slot that was opened.
func (p slotPage) figures() []figure {
	jobs := link("/slot", "at", p.Slot.Slot) + "#jobs"
	took := figure{Name: "Has taken", Value: dur(p.Took)}
	if p.FinishedAt != nil {
		took.Name = "Took"
	}
	if p.Width > 0 {
		took.Note = "of a width of " + dur(p.Width)
	}
	rows := figure{Name: "Rows", Value: num(p.Checked), Note: "of " + num(p.Planned) + " when it was opened", Path: jobs}
	if p.Planned > 0 && p.Checked == 0 {
		rows.Value, rows.Note = "none", rows.Note+" was checked"
	}
	rate := figure{Name: "Rate", Value: rate(p.Rate), Note: "rows a second"}
	if p.Rate == 0 {
		rate.Value = 0
	}
	return shown([]figure{
		rows,
		{Name: "Finished", Value: count(p.Finished), Path: jobs},
		{Name: "Rescheduled", Value: count(p.Rescheduled), Path: jobs},
		{Name: "Failed", Value: count(p.Failed), Mark: "bad", Path: jobs},
		took,
		rate,
	})
}

// figures returns the rows of the rule that wait, and those that ended in the last 7 days.
func (p rulePage) figures() []figure {
	sum := p.Summary
	ended := func(o jobs.Outcome) string { return link("/ended", "job", p.Name, "outcome", o) }
	waiting := figure{
		Name: "Waiting for a step", Value: count(sum.Waiting), Path: link("/waiting", "job", p.Name), At: sum.NextSlot,
	}
	if sum.Estimated && sum.Waiting > 0 {
		waiting.Value = "about " + num(sum.Waiting)
	}
	if sum.NextSlot != nil {
		waiting.Note = "the first in slot"
	}
	return shown([]figure{
		waiting,
		{Name: "Met in time", Value: count(sum.Ended.Met), Note: "in 7 days, before any step", Path: ended("")},
		{Name: "Met after a step", Value: count(sum.Ended.MetLate), Note: "it happened late", Path: ended("")},
		{Name: "Open after the last step", Value: count(sum.Ended.Open), Note: "it had not happened", Path: ended("")},
		{
			Name: "Deleted or outside", Value: count(sum.Ended.LeftOut), Note: "the rule is no longer about them",
			Path: ended(""),
		},
		{Name: "Cancelled", Value: count(sum.Ended.Cancelled), Path: ended(jobs.OutcomeCancelled)},
		{Name: "Given up", Value: count(sum.Ended.Failed), Mark: "bad", Path: ended(jobs.OutcomeFailed)},
	})
}
