package plancmd

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/internal/forecast"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots/ledger"
)

// forecastView is the JSON of plan forecast.
type forecastView struct {
	OK bool `json:"ok"` // there are no findings
	forecast.Forecast
}

func printForecast(f *factory.Factory, ahead forecast.Forecast, onlyFindings bool) error {
	return f.Print(forecastView{len(ahead.Findings) == 0, ahead}, func() error {
		if onlyFindings {
			return printForecastFindings(f, ahead.Findings)
		}
		err := errors.Join(printBars(f, ahead), printOverdue(f, ahead), printForecastFindings(f, ahead.Findings))
		for _, note := range ahead.Notes {
			err = errors.Join(err, f.Sentence(note))
		}
		return err
	})
}

// longest is the width of the longest bar.
const longest = 30

// mostBars bounds the slots that a table lists: a day of slots of 15 minutes.
const mostBars = 100

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
			s.Slot, s.Rows, s.Waiting, spoken.About(time.Duration(s.Took)), bar(s.Waiting, s.Rows, most) + mark, jobsText(s),
		})
	}
	if len(rows) == 0 {
		return f.Sentence(fmt.Sprintf("nothing is due from %s to %s", spoken.Instant(ahead.From),
			spoken.Instant(ahead.To)))
	}
	header := table.Row{"SLOT", "ROWS", output.Droppable("WAITING"), "TAKES", "", output.Droppable("JOBS")}
	err := f.Table(header, rows[:min(len(rows), mostBars)]...)
	if more := len(rows) - mostBars; more > 0 {
		err = errors.Join(err, f.Lines(fmt.Sprintf("and %d more; --for shows fewer, and --output json lists them all", more)))
	}
	return errors.Join(err, f.Lines(""), f.Sentence(fmt.Sprintf(
		"%d of %d slots have rows. Times: %d x %d workers, from %s of the past.",
		len(rows), len(ahead.Slots), ahead.Runners, ahead.Workers, spoken.Count(ahead.Learned, "slot", "slots"))))
}

// printOverdue prints the rows that run beside the slots.
func printOverdue(f *factory.Factory, ahead forecast.Forecast) error {
	if ahead.Overdue == 0 {
		return nil
	}
	count, is, them := ledger.Count{N: ahead.Overdue, AtLeast: ahead.OverdueAtLeast}, "are", "them"
	if count.N == 1 {
		is, them = "is", "it"
	}
	takes := spoken.About(time.Duration(ahead.OverdueTakes))
	if count.AtLeast {
		takes = "at least " + takes
	}
	return f.Sentence(fmt.Sprintf("On top, %s %s overdue: the next catch-up runs %s, which takes %s.",
		count.Of("row", "rows"), is, them, takes))
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
		case j.Unserved:
			text += " (not counted: no run of the last 7 days had it)"
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

func printForecastFindings(f *factory.Factory, list []forecast.Finding) error {
	var err error
	for _, found := range list {
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
