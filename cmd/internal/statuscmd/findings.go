package statuscmd

import (
	"errors"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots/health"
	"github.com/prescient-go/prescient/slots/ledger"
)

// printJobs prints the jobs with failed or given-up rows in the last day, and the jobs whose rows
// reached their limit of checks. It also prints how jobs with an SLA have kept it.
func printJobs(f *factory.Factory, v view.Status) error {
	var failed, promised, limited []ledger.JobStatus
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
		err = errors.Join(f.Lines(""), output.Few(f.Printer, len(failed), failed, header, func(j ledger.JobStatus) table.Row {
			return table.Row{j.Failed, j.Checked, j.GaveUp, j.LastSlot, j.JobExec, spoken.Error(j.Error)}
		}))
	}
	if len(limited) > 0 {
		err = errors.Join(err, f.Lines(""),
			output.Few(f.Printer, len(limited), limited, table.Row{"ENDED BY MAX CHECKS", "JOB"},
				func(j ledger.JobStatus) table.Row {
					return table.Row{j.MaxChecks, j.JobExec}
				}))
	}
	if len(promised) > 0 {
		header := table.Row{"SLA", "KEPT", "LATE", "OF", "P50", "P99", "JOB"}
		err = errors.Join(err, f.Lines(""),
			output.Few(f.Printer, len(promised), promised, header, func(j ledger.JobStatus) table.Row {
				return table.Row{j.SLA, j.Kept(), j.Late, j.Checked, j.LatenessP50, j.LatenessP99, j.JobExec}
			}))
	}
	if len(v.LateSlots) > 0 {
		header := table.Row{"SLA BROKEN IN SLOT", "LATE", "OF", "JOB"}
		err = errors.Join(err, f.Lines(""),
			output.Few(f.Printer, len(v.LateSlots), v.LateSlots, header, func(s ledger.LateSlot) table.Row {
				return table.Row{s.Slot, s.Late, s.Checked, s.JobExec}
			}))
	}
	return err
}

// printFindings prints the problems, and nothing if there are none.
func printFindings(f *factory.Factory, v view.Status) error {
	if v.OK {
		return nil
	}
	err := printTrouble(f, v)
	for _, found := range v.Findings {
		err = errors.Join(err, f.Sentence(found.Condition+": "+found.Text))
		if found.Remedy != "" {
			err = errors.Join(err, f.Lines(strings.Map(plain.Printable, "    see to it with: "+found.Remedy)))
		}
	}
	told := slices.ContainsFunc(v.Findings, func(found health.Finding) bool { return found.Condition == "unserved" })
	if len(v.NotRegistered) > 0 && !told {
		err = errors.Join(err,
			f.Sentence("not registered here, and left to a binary that has it: "+spoken.List(v.NotRegistered)))
	}
	return err
}

// printTrouble prints a line for each job in each slot, and then one for each slot without rows: of
// many lines, the ones with rows matter most.
func printTrouble(f *factory.Factory, v view.Status) error {
	var lines, empty []table.Row
	for _, t := range v.Trouble {
		if len(t.Jobs) == 0 {
			empty = append(empty, table.Row{t.Slot, view.StateWord(t.State), t.Count(), ""})
		}
		for _, job := range t.Jobs {
			lines = append(lines, table.Row{
				t.Slot, view.StateWord(t.State), job.Count(), job.Marked(job.JobExec),
			})
		}
	}
	if lines = append(lines, empty...); len(lines) == 0 {
		return nil
	}
	header := table.Row{"SLOT", "STATE", "WAITING", "JOB"}
	return errors.Join(output.Few(f.Printer, len(lines)+int(v.MoreMissed+v.MoreOpen), lines, header,
		func(line table.Row) table.Row { return line }), f.Lines(""))
}
