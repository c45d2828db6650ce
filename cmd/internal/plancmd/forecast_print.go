package plancmd

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots/forecast"
)

// forecastView is forecast.Forecast as JSON.
type forecastView struct {
	OK       bool               `json:"ok"` // there are no findings
	Now      time.Time          `json:"now"`
	Width    duration.Text      `json:"width"`
	From     time.Time          `json:"from"`
	To       time.Time          `json:"to"`
	Runners  int                `json:"runners"`
	Workers  int                `json:"workers"`
	Learned  int                `json:"learned_slots"`
	Slots    []forecastSlotView `json:"slots"`
	Findings []forecast.Finding `json:"findings"`
	Notes    []string           `json:"notes"`
}

// forecastSlotView is forecast.Slot as JSON.
type forecastSlotView struct {
	Slot    time.Time         `json:"slot"`
	Rows    int64             `json:"rows"`
	Waiting int64             `json:"waiting"`
	Begins  duration.Text     `json:"begins_after"`
	Took    duration.Text     `json:"takes"`
	Jobs    []forecastJobView `json:"jobs"`
}

// forecastJobView is forecast.Job as JSON.
type forecastJobView struct {
	JobExec      string        `json:"job_exec"`
	Waiting      int64         `json:"waiting"`
	Expected     int64         `json:"rows"`
	Done         duration.Text `json:"done_after"`
	Paused       bool          `json:"paused"`
	Unregistered bool          `json:"unregistered"`
}

func newForecastView(ahead forecast.Forecast) forecastView {
	v := forecastView{
		OK: len(ahead.Findings) == 0, Now: ahead.Now, Width: duration.Text(ahead.Grid.Width()), From: ahead.From,
		To: ahead.To, Runners: ahead.Runners, Workers: ahead.Workers,
		Learned: ahead.Learned, Slots: []forecastSlotView{}, Findings: append([]forecast.Finding{}, ahead.Findings...),
		Notes: append([]string{}, ahead.Notes...),
	}
	for _, s := range ahead.Slots {
		slot := forecastSlotView{
			s.Slot, s.Rows, s.Waiting, duration.Text(s.Begins), duration.Text(s.Took), []forecastJobView{},
		}
		for _, j := range s.Jobs {
			slot.Jobs = append(slot.Jobs, forecastJobView{
				j.JobExec, j.Waiting, j.Expected, duration.Text(j.Done), j.Paused, j.Unregistered,
			})
		}
		v.Slots = append(v.Slots, slot)
	}
	return v
}

func printForecast(f *factory.Factory, ahead forecast.Forecast, onlyFindings bool) error {
	view := newForecastView(ahead)
	return f.Print(view, func() error {
		if onlyFindings {
			return printForecastFindings(f, view)
		}
		err := errors.Join(printBars(f, ahead), printForecastFindings(f, view))
		for _, note := range ahead.Notes {
			err = errors.Join(err, f.Sentence(note))
		}
		return err
	})
}

// longest is the width of the longest bar.
const longest = 30

// printBars prints the slots that have rows, with a bar for each.
func printBars(f *factory.Factory, ahead forecast.Forecast) error {
	var rows []table.Row
	most := int64(1)
	for _, s := range ahead.Slots {
		most = max(most, s.Rows)
	}
	for _, s := range ahead.Slots {
		if len(s.Jobs) == 0 {
			continue
		}
		mark := ""
		if s.Ends() > ahead.Grid.Width() {
			mark = " !"
		}
		rows = append(rows, table.Row{
			s.Slot, s.Rows, s.Waiting, spoken.About(s.Took), bar(s.Waiting, s.Rows, most) + mark, jobsText(s),
		})
	}
	if len(rows) == 0 {
		return f.Sentence(fmt.Sprintf("nothing is due from %s to %s", spoken.Instant(ahead.From),
			spoken.Instant(ahead.To)))
	}
	header := table.Row{"SLOT", "ROWS", output.Droppable("WAITING"), "TAKES", "", output.Droppable("JOBS")}
	return errors.Join(f.Table(header, rows...), f.Lines(""), f.Sentence(fmt.Sprintf(
		"%d of %d slots have rows. Times: %d x %d workers, from %s of the past.",
		len(rows), len(ahead.Slots), ahead.Runners, ahead.Workers, spoken.Count(ahead.Learned, "slot", "slots"))))
}

// bar returns a bar of rows. The rows that wait already are dark.
func bar(waiting, rows, most int64) string {
	long := (rows*longest + most - 1) / most
	full := int64(0)
	if rows > 0 {
		full = (min(waiting, rows)*long + rows/2) / rows
	}
	return strings.Repeat("█", int(full)) + strings.Repeat("░", int(long-full))
}

// jobsText returns the jobs of a slot as one line.
func jobsText(s forecast.Slot) string {
	var list []string
	for _, j := range s.Jobs {
		text := fmt.Sprintf("%s %d", j.JobExec, j.Expected)
		switch {
		case j.Paused:
			text += " (not counted: paused)"
		case j.Unregistered:
			text += " (not counted: no run of the last 7 days knows it)"
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

func printForecastFindings(f *factory.Factory, v forecastView) error {
	var err error
	for _, found := range v.Findings {
		more := ""
		if found.Slots > 1 {
			more = fmt.Sprintf("; %d slots in a row from %s on, this is the worst", found.Slots, spoken.Instant(found.Slot))
		}
		err = errors.Join(err, f.Sentence(fmt.Sprintf("%s: %s%s", found.Condition, found.Text, more)))
		for _, help := range found.Help {
			err = errors.Join(err, f.Lines(strings.Map(plain.Printable, "  - "+help)))
		}
	}
	return err
}
