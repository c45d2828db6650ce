package forecast

import (
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// judge finds what will go wrong, and what would help.
type judge struct {
	forecast  *Forecast
	cost      cost
	capacity  capacity
	slas      map[string]time.Duration
	deadlines map[int64]time.Duration
	registry  *jobs.Registry
}

// findings returns what will go wrong. Of consecutive slots with the same problem, it returns the
// worst.
func (j *judge) findings() []Finding {
	list := []Finding{}
	type open struct {
		at    int // index in list
		slot  int
		worst float64
	}
	opened := map[string]open{}
	for i, s := range j.forecast.Slots {
		for _, v := range j.violations(s) {
			key := string(v.finding.Condition) + " " + v.finding.JobExec
			o, going := opened[key]
			switch {
			case !going || o.slot != i-1:
				o = open{len(list), i, v.by}
				list = append(list, v.finding)
			case v.by > o.worst:
				first, n := list[o.at].Slot, list[o.at].Slots
				list[o.at], o.worst = v.finding, v.by
				list[o.at].Slot, list[o.at].Slots = first, n
			}
			o.slot = i
			list[o.at].Slots++
			opened[key] = o
		}
	}
	return list
}

// violation is a finding of one slot, and the factor by which it is over its limit.
type violation struct {
	finding Finding
	by      float64
}

func (j *judge) violations(s Slot) (list []violation) {
	width := j.forecast.Grid.Width()
	rows := map[string]float64{}
	for _, job := range s.Jobs {
		if job.Runs() {
			rows[job.JobExec] = float64(job.Expected)
		}
	}
	if s.Ends() > width {
		list = append(list, violation{Finding{
			Slot: s.Slot, Condition: TooLong,
			Text: fmt.Sprintf("slot %s ends %s after it began, and the next one begins after %s: %s %s",
				clock(s.Slot), spoken.About(s.Ends()), spoken.Exact(width),
				spoken.Count(s.Rows, "row takes", "rows take"), spoken.About(time.Duration(s.Took))) + j.begun(width),
			Help: j.help(rows, j.heaviest(rows), width, j.cost.took),
		}, s.Ends().Seconds() / width.Seconds()})
	}
	for _, job := range s.Jobs {
		done := time.Duration(job.Done)
		if limit := j.slas[job.JobExec]; job.Runs() && limit > 0 && done > limit {
			list = append(list, j.late(s, job, rows, SLA, limit, "its SLA is"))
		}
		if limit := j.deadline(s, job.JobExec); job.Runs() && limit > 0 && done > limit {
			list = append(list, j.late(s, job, rows, Deadline, limit, "its deadline, after which rows are dropped, is"))
		}
	}
	return list
}

// late returns a violation if the last row of a job is reached later than limit.
func (j *judge) late(
	s Slot, job Job, rows map[string]float64, c Condition, limit time.Duration, what string,
) violation {
	return violation{Finding{
		Slot: s.Slot, Condition: c, JobExec: job.JobExec,
		Text: fmt.Sprintf("in slot %s the last of %s of %s is reached %s after it began; %s %s",
			clock(s.Slot), spoken.Count(job.Expected, "row", "rows"), job.JobExec, spoken.About(time.Duration(job.Done)), what,
			spoken.Exact(limit)) + j.begun(limit),
		Help: j.help(rows, job.JobExec, limit, func(rows map[string]float64, by capacity) float64 {
			return j.cost.done(rows, job.JobExec, by)
		}),
	}, float64(job.Done) / float64(limit)}
}

// begun says how late runs begin, if that is a good part of a limit.
func (j *judge) begun(limit time.Duration) string {
	if j.cost.delay < limit/10 {
		return ""
	}
	return fmt.Sprintf("; runs of the last day began %s after their slots", spoken.About(j.cost.delay))
}

// deadline returns how long after a slot rows of a job are dropped; 0: never. For schedules it is
// the shortest deadline in the slot.
func (j *judge) deadline(s Slot, job string) time.Duration {
	if job == schedule.JobExec {
		return j.deadlines[s.Slot.Unix()]
	}
	if j.registry == nil {
		return 0
	}
	if d, ok := j.registry.Lookup(job); ok {
		return d.Deadline
	}
	return 0
}

// heaviest returns the job that takes most of a slot's time.
func (j *judge) heaviest(rows map[string]float64) (job string) {
	most := -1.0
	for name, n := range rows {
		each, _ := j.cost.row(name, j.capacity)
		if took := n * each; took > most || took == most && name < job {
			job, most = name, took
		}
	}
	return job
}

const (
	// mostRunners, mostSpread and inBatches bound the recommendations.
	mostRunners = 64
	mostSpread  = 96
	inBatches   = 100
)

// ends returns the time until a slot, or a job in it, is done.
type ends func(rows map[string]float64, by capacity) float64

// help returns what would finish a job's rows within a limit: more runners, a higher concurrency,
// batches, or several slots. If runs begin too late for any of these, it recommends to begin them
// earlier.
func (j *judge) help(rows map[string]float64, job string, limit time.Duration, done ends) (help []string) {
	left := limit.Seconds() - j.cost.delay.Seconds()
	if left <= 0 {
		return []string{
			"begin runs at their slots: see what starts them, such as the minutes in the crontab; nothing else helps",
		}
	}
	by := j.capacity
	for by.runners < mostRunners && done(rows, by) > left {
		by.runners++
	}
	switch {
	case done(rows, by) <= left:
		help = append(help, fmt.Sprintf("%.0f runners instead of %.0f: it takes %s", by.runners, j.capacity.runners,
			spoken.About(seconds(done(rows, by)))))
	default:
		help = append(help, fmt.Sprintf("runners alone do not help: with %.0f it takes %s", by.runners,
			spoken.About(seconds(done(rows, by)))))
	}
	all, checks := j.cost.row(job, j.capacity)
	if atOnce := j.atOnce(job); checks > all/2 && atOnce < j.capacity.workers*j.capacity.runners/2 {
		n := min(j.capacity.workers*j.capacity.runners, math.Ceil(atOnce*done(rows, j.capacity)/max(left, 1e-3)))
		help = append(help,
			fmt.Sprintf("of %s some %.0f checks run at once, where %.0f could: "+
				"with a concurrency (or run.connections, for checks in transactions) that lets %.0f, it takes %s",
				job, math.Ceil(atOnce), j.capacity.workers*j.capacity.runners, n, spoken.About(seconds(j.with(rows,
					job, atOnce/n, done)))))
	}
	if !j.batched(job) && checks > all/2 {
		help = append(help,
			fmt.Sprintf("%s in batches: if a batch of %d rows takes as long as one row does now, it takes %s",
				job, inBatches, spoken.About(seconds(j.with(rows, job, 1.0/inBatches, done)))))
	}
	if n, took := j.spread(rows, job, left, done); n > 1 {
		help = append(help, fmt.Sprintf("%s spread over %d slots: each takes %s of it", job, n,
			spoken.About(seconds(took))))
	}
	return help
}

// with returns the time until done, if the checks of a job took only a part of their time.
func (j *judge) with(rows map[string]float64, job string, part float64, done ends) float64 {
	all, checks := j.cost.row(job, j.capacity)
	other := maps.Clone(rows)
	other[job] *= (all - checks*(1-part)) / all
	return done(other, j.capacity)
}

// atOnce returns how many checks of a job run at once, learned from the past.
func (j *judge) atOnce(job string) float64 {
	all, _ := j.cost.row(job, j.capacity)
	return j.cost.check[job] / all
}

// batched reports whether the job's function takes more than one row a call, as far as known.
func (j *judge) batched(job string) bool {
	if j.registry == nil {
		return false
	}
	d, ok := j.registry.Lookup(job)
	return ok && d.Batched()
}

// spread returns over how many slots the rows of a job fit, and how long each takes; 0: over none.
func (j *judge) spread(rows map[string]float64, job string, left float64, done ends) (int, float64) {
	for n := 2; n <= mostSpread; n++ {
		less := maps.Clone(rows)
		less[job] /= float64(n)
		if took := done(less, j.capacity); took <= left {
			return n, took
		}
	}
	return 0, 0
}

func clock(at time.Time) string { return spoken.Instant(at) }
