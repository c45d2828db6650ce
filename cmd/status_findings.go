package cmd

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/health"
)

// findingView is health.Finding as JSON.
type findingView struct {
	Condition string `json:"condition"`
	Text      string `json:"text"`
	Remedy    string `json:"remedy"` // the command that mends it or tells more; empty: none does
}

func (a *App) newFindingViews(list []health.Finding) []findingView {
	views := []findingView{}
	for _, f := range list {
		v := findingView(f)
		if v.Remedy != "" {
			v.Remedy = a.self() + " " + v.Remedy
		}
		views = append(views, v)
	}
	return views
}

// jobStatusView is slots.JobStatus as JSON.
type jobStatusView struct {
	JobExec      string        `json:"job_exec"`
	RegisteredAt *time.Time    `json:"registered_at"` // when a run last knew it, to the hour; null: none did
	Unregistered bool          `json:"unregistered"`  // rows wait for it, and no run of the last 7 days knew it
	Checked      int64         `json:"checked"`
	Failed       int64         `json:"failed"`
	GaveUp       int64         `json:"gave_up"`
	MaxChecks    int64         `json:"max_checks"`
	LastSlot     *time.Time    `json:"last_slot"` // null: none in the last day
	LastChecked  int64         `json:"last_checked"`
	LastFailed   int64         `json:"last_failed"`
	LastLate     int64         `json:"last_late"`
	LastAt       *time.Time    `json:"last_at"`
	Error        string        `json:"error"`
	SLA          duration.Text `json:"sla"` // 0: none
	Late         int64         `json:"late"`
	LatenessP50  duration.Text `json:"lateness_p50"`
	LatenessP99  duration.Text `json:"lateness_p99"`
}

func newJobStatusViews(list []slots.JobStatus) []jobStatusView {
	views := []jobStatusView{}
	for _, j := range list {
		views = append(views, jobStatusView{
			j.JobExec, timeOrNil(j.RegisteredAt), j.Unregistered, j.Checked, j.Failed, j.GaveUp, j.MaxChecks, timeOrNil(j.LastSlot), j.LastChecked, j.LastFailed, j.LastLate, timeOrNil(j.LastAt),
			j.Error, duration.Text(j.SLA), j.Late, duration.Text(j.LatenessP50), duration.Text(j.LatenessP99),
		})
	}
	return views
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// kept is the share of checks that kept the SLA.
func (j jobStatusView) kept() string {
	if j.Checked == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f %%", 100*float64(j.Checked-j.Late)/float64(j.Checked))
}

// lateSlotView is slots.LateSlot as JSON.
type lateSlotView struct {
	Slot    time.Time `json:"slot"`
	JobExec string    `json:"job_exec"`
	Checked int64     `json:"checked"`
	Late    int64     `json:"late"`
}

func newLateSlotViews(list []slots.LateSlot) []lateSlotView {
	views := []lateSlotView{}
	for _, s := range list {
		views = append(views, lateSlotView(s))
	}
	return views
}

// printJobs prints the jobs that have failed or given rows up in the last day, whose rows were ended by their limit of checks, and
// how those with an SLA have kept it.
func printJobs(a *App, v statusView) error {
	var failed, promised, limited []jobStatusView
	for _, j := range v.Jobs {
		if j.Failed > 0 || j.GaveUp > 0 {
			failed = append(failed, j)
		}
		if j.SLA > 0 {
			promised = append(promised, j)
		}
		if j.MaxChecks > 0 {
			limited = append(limited, j)
		}
	}
	var err error
	if len(failed) > 0 {
		header := table.Row{"FAILED", "OF", "GAVE UP", "NEWEST SLOT", "JOB", "ERROR"}
		err = errors.Join(a.lines(""), printFew(a, failed, header, func(j jobStatusView) table.Row {
			return table.Row{j.Failed, j.Checked, j.GaveUp, j.LastSlot, j.JobExec, j.Error}
		}))
	}
	if len(limited) > 0 {
		err = errors.Join(err, a.lines(""), printFew(a, limited, table.Row{"ENDED BY MAX CHECKS", "JOB"}, func(j jobStatusView) table.Row {
			return table.Row{j.MaxChecks, j.JobExec}
		}))
	}
	if len(promised) > 0 {
		header := table.Row{"SLA", "KEPT", "LATE", "OF", "P50", "P99", "JOB"}
		err = errors.Join(err, a.lines(""), printFew(a, promised, header, func(j jobStatusView) table.Row {
			return table.Row{j.SLA, j.kept(), j.Late, j.Checked, j.LatenessP50, j.LatenessP99, j.JobExec}
		}))
	}
	if len(v.LateSlots) > 0 {
		header := table.Row{"SLA BROKEN IN SLOT", "LATE", "OF", "JOB"}
		err = errors.Join(err, a.lines(""), printFew(a, v.LateSlots, header, func(s lateSlotView) table.Row {
			return table.Row{s.Slot, s.Late, s.Checked, s.JobExec}
		}))
	}
	return err
}

// printFindings prints what is wrong, and nothing where nothing is.
func printFindings(a *App, v statusView) error {
	if v.OK {
		return nil
	}
	err := printTrouble(a, v)
	for _, f := range v.Findings {
		err = errors.Join(err, a.sentence(strings.Map(printable, f.Condition+": "+f.Text)))
		if f.Remedy != "" {
			err = errors.Join(err, a.lines("    see to it with: "+f.Remedy))
		}
	}
	if len(v.NotRegistered) > 0 {
		err = errors.Join(err, a.sentence("not registered here, and left to a binary that has it: "+strings.Join(v.NotRegistered, ", ")))
	}
	return err
}

// printTrouble prints a line for each job in each slot, and one for a slot without rows.
func printTrouble(a *App, v statusView) error {
	var lines []table.Row
	for _, t := range v.trouble {
		if len(t.Jobs) == 0 {
			lines = append(lines, table.Row{t.Slot, stateWord(t.state), t.Waiting, ""})
		}
		for _, job := range t.Jobs {
			lines = append(lines, table.Row{t.Slot, stateWord(t.state), orMore(job.Waiting, slots.MostOverdue), job.marked(job.JobExec)})
		}
	}
	if len(lines) == 0 {
		return nil
	}
	header := table.Row{"SLOT", "STATE", "WAITING", "JOB"}
	return errors.Join(printFew(a, lines, header, func(line table.Row) table.Row { return line }), a.lines(""))
}
