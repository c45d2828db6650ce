package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
)

// The default thresholds of conditions about jobs, in percent.
const (
	failingOver    = 50
	publishingOver = 0
	slaOver        = 1
)

func gaveUp(r *Report, threshold float64) (list []Finding) {
	r.told.gaveUp = map[string]bool{}
	for i := range r.Jobs {
		j := &r.Jobs[i]
		r.told.gaveUp[j.JobExec] = float64(j.GaveUp) > threshold
		why := ""
		if j.GaveUpError != "" {
			why = ": " + strings.TrimSuffix(oneLine(j.GaveUpError), ".")
		}
		job := spoken.Word(j.JobExec)
		found := r.found(r.told.gaveUp[j.JobExec], "jobs history --outcome failed --since 24h --job "+job,
			"%s of %s %s given up in the last day%s. Mend the cause first; jobs retry --job %s then puts the rows back. "+
				"If you will not retry them, acknowledge them with alerts ack --job %s --because WHY --yes",
			spoken.Count(j.GaveUp, "row", "rows"), j.JobExec, spoken.Noun(j.GaveUp, "was", "were"), why, job, job)
		list = append(list, of(j.JobExec, found)...)
	}
	return list
}

// failing leaves out jobs whose failed rows were all given up, if gaveUp has told them.
func failing(r *Report, threshold float64) []Finding {
	return failures(r, threshold, func(j *ledger.JobStatus) bool {
		return j.JobExec != schedule.JobExec && (!r.told.gaveUp[j.JobExec] || retries(j))
	})
}

func publishing(r *Report, threshold float64) []Finding {
	return failures(r, threshold, func(j *ledger.JobStatus) bool { return j.JobExec == schedule.JobExec })
}

// Failing reports whether a job is failing: more of its checks failed in the slot that was run last than the
// conditions failing and publishing allow by default.
func Failing(j *ledger.JobStatus) bool {
	if j.JobExec == schedule.JobExec {
		return failsOver(j, publishingOver)
	}
	return failsOver(j, failingOver)
}

// failsOver leaves out rows that were cancelled or acknowledged, because they need no operator any more.
func failsOver(j *ledger.JobStatus, threshold float64) bool {
	return j.LastChecked > 0 && 100*float64(j.LastFailed-j.LastSettled)/float64(j.LastChecked) > threshold
}

// Late reports whether a job is late: it broke its SLA more often than the condition sla allows by default.
func Late(j *ledger.JobStatus) bool { return lateOver(j, slaOver) }

func lateOver(j *ledger.JobStatus, threshold float64) bool {
	return j.SLA > 0 && j.LastLate > 0 && 100*float64(j.Late)/float64(j.Checked) > threshold
}

func failures(r *Report, threshold float64, which func(j *ledger.JobStatus) bool) (list []Finding) {
	for i := range r.Jobs {
		j := &r.Jobs[i]
		found := r.found(failsOver(j, threshold) && which(j), seeTo(j),
			"%d of %d checks of %s failed in slot %s, which was run last, at %s: %s",
			j.LastFailed, j.LastChecked, j.JobExec, clock(instant(j.LastSlot)), r.since(instant(j.LastAt)), oneLine(j.Error))
		list = append(list, of(j.JobExec, found)...)
	}
	return list
}

// OtherColumn is the remedy if a rule reads a column that its table does not have.
const OtherColumn = "rules apply -f FILE  -- with the new name of the column in the file. " +
	"If it was dropped, take it out of the file"

// seeTo returns the remedy for a job that fails. If a rule cannot read its table, its rows say no more than the error.
func seeTo(j *ledger.JobStatus) string {
	reads := strings.Contains(j.Error, " for rule "+j.JobExec+": ")
	switch {
	case reads && strings.Contains(j.Error, "("+string(pqerror.UndefinedColumn)+")"):
		return OtherColumn
	case reads:
		return "doctor"
	case retries(j):
		return "jobs list --job " + spoken.Word(j.JobExec)
	}
	return "jobs history --outcome failed --job " + spoken.Word(j.JobExec)
}

// instant returns the zero time for nil.
func instant(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// retries reports whether rows that failed in the job's last slot wait for a retry.
func retries(j *ledger.JobStatus) bool { return j.LastGaveUp+j.LastSettled < j.LastFailed }

// unserved tells all rows of a job that no run knows, so that no other condition tells them
// again. The rows of a job of this binary in slots that were missed wait for any run: missed tells
// them.
func unserved(r *Report, threshold float64) (list []Finding) {
	var here, nowhere []string
	for _, j := range r.Jobs {
		switch {
		case !j.Unserved:
		case !r.knows(j.JobExec):
			nowhere = append(nowhere, j.JobExec)
		case !slices.ContainsFunc(r.Trouble, func(t ledger.Trouble) bool {
			return t.State == slots.StateMissed && slices.ContainsFunc(t.Jobs, isOf(j.JobExec))
		}):
			here = append(here, j.JobExec)
		}
	}
	if float64(len(here)+len(nowhere)) <= threshold {
		return nil
	}
	if len(nowhere) > 0 {
		list = r.found(true, "jobs list --job "+spoken.Word(nowhere[0]),
			"rows wait for jobs that no run of the last 7 days had: %s. "+
				"Run a binary that has them, or cancel the rows if a name is wrong or its rule was removed%s",
			r.withDue(nowhere), r.lacksRules())
	}
	if len(here) > 0 { // nothing has run yet, or an older binary or a server has
		list = append(list, r.found(true, "run --catch-up",
			"rows wait for jobs that the commands of this binary have, and that no run of the last 7 days had: %s. "+
				"Let its command daemon, or run --catch-up at each slot, run them. %s", r.withDue(here), ownServer)...)
	}
	r.told.jobs = map[string]bool{}
	for _, job := range slices.Concat(here, nowhere) {
		r.told.jobs[job] = true
	}
	return list
}

// ownServer names a program that runs slots, also with the registry of this binary, and leaves rows of rules.
const ownServer = "A server that calls daemon.Run has only what it registers: " +
	"no rules, schedules or jobs of the settings by itself"

// lacksRules returns the case that the caller is such a server, which does not know whether a job is a rule. All
// commands have the job of schedules.
func (r *Report) lacksRules() string {
	if r.knows(schedule.JobExec) {
		return ""
	}
	return ". " + ownServer + ": let the command daemon, or run --catch-up at each slot, run them"
}

// withDue returns the names of jobs, each with the number of its rows that are due.
func (r *Report) withDue(names []string) string {
	due := map[string]ledger.Count{}
	for _, t := range slices.Concat(r.Trouble, r.Running, []ledger.Trouble{{Jobs: r.unopened}}) {
		for _, c := range t.Jobs {
			due[c.JobExec] = due[c.JobExec].Plus(c.Waiting)
		}
	}
	texts := slices.Clone(names)
	for i, name := range names {
		if due[name].N > 0 {
			texts[i] = fmt.Sprintf("%s (%s due)", name, due[name])
		}
	}
	return spoken.List(texts)
}

func isOf(job string) func(c ledger.JobCount) bool {
	return func(c ledger.JobCount) bool { return c.JobExec == job }
}

func sla(r *Report, threshold float64) (list []Finding) {
	for i := range r.Jobs {
		j := &r.Jobs[i]
		found := r.found(lateOver(j, threshold), "jobs stats --since 24h",
			"%d of %d checks of %s in the last day began later than %s after their slot, and %d of %d of slot %s, "+
				"which was run last, at %s",
			j.Late, j.Checked, j.JobExec, seconds(time.Duration(j.SLA).Seconds()), j.LastLate, j.LastChecked,
			clock(instant(j.LastSlot)), r.since(instant(j.LastAt)))
		list = append(list, of(j.JobExec, found)...)
	}
	return list
}
