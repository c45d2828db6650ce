package board

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots/health"
	"github.com/prescient-go/prescient/slots/ledger"
)

// JobState is the state of a job in a word.
type JobState string

// The states of a job.
const (
	JobUnserved JobState = "unserved" // no run has it, and rows wait
	JobOverdue  JobState = "overdue"
	JobFailing  JobState = "failing" // as health.Failing
	JobFailed   JobState = "failed"  // some checks of its last slot
	JobGaveUp   JobState = "gave up"
	JobLate     JobState = "late" // some checks of its last slot
	JobPaused   JobState = "paused"
	JobOK       JobState = "ok"
	JobIdle     JobState = "idle" // nothing was checked in the last day
)

// jobStates are all of them, the worst first.
var jobStates = []JobState{
	JobUnserved, JobOverdue, JobFailing, JobFailed, JobGaveUp, JobLate, JobPaused, JobOK, JobIdle,
}

// StateOf returns the state of a job. The rows of a paused job wait on purpose.
func StateOf(j *ledger.JobStatus, paused bool, overdue ledger.Count) JobState {
	switch {
	case paused:
		return JobPaused
	case j.Unserved:
		return JobUnserved
	case overdue.N > 0:
		return JobOverdue
	case health.Failing(j):
		return JobFailing
	case j.LastFailed > j.LastSettled:
		return JobFailed
	case j.GaveUp > 0:
		return JobGaveUp
	case j.SLA > 0 && j.LastLate > 0:
		return JobLate
	case j.Checked == 0:
		return JobIdle
	}
	return JobOK
}

// JobsOrder is the order of a list of jobs. Jobs with the same value are in the order of their names, and jobs that the
// last day knows nothing of come last. The zero value is the worst first.
type JobsOrder struct {
	// By is state, job_exec, checked, failed, gave_up, late, lateness_p50 or lateness_p99; empty: state.
	By   string
	Desc bool // the highest first; of states, the best
}

// byName is the order that only the database knows.
const byName = "job_exec"

// jobValues are what a list of jobs can be ordered by, besides the name.
var jobValues = map[string]func(j *JobLine) int64{
	"state":        func(j *JobLine) int64 { return int64(slices.Index(jobStates, j.State)) },
	"checked":      func(j *JobLine) int64 { return j.Checked },
	"failed":       func(j *JobLine) int64 { return j.Failed },
	"gave_up":      func(j *JobLine) int64 { return j.GaveUp },
	"late":         func(j *JobLine) int64 { return j.Late },
	"lateness_p50": func(j *JobLine) int64 { return int64(j.LatenessP50) },
	"lateness_p99": func(j *JobLine) int64 { return int64(j.LatenessP99) },
}

func (o JobsOrder) check() error {
	if jobValues[o.by()] == nil && o.By != byName {
		names := append(slices.Sorted(maps.Keys(jobValues)), byName)
		return &jobs.FieldError{Field: "sort", Message: "must be one of " + strings.Join(names, ", ")}
	}
	return nil
}

func (o JobsOrder) by() string { return cmp.Or(o.By, "state") }

// position returns the place behind a job.
func (o JobsOrder) position(j *JobLine) JobsPosition {
	return JobsPosition{value: jobValues[o.by()](j), name: j.JobExec}
}

func (o JobsOrder) compare(p, q JobsPosition) int {
	values := cmp.Compare(p.value, q.value)
	if o.Desc {
		values = -values
	}
	return cmp.Or(values, cmp.Compare(p.name, q.name))
}

// JobsPosition is a place in a list of jobs: behind a job. The zero value is the beginning of the list.
type JobsPosition struct {
	quiet bool // the job is not in the overview; such jobs follow all others
	value int64
	name  string
}

// quiet is the value of a quiet job in the text of its position.
const quiet = "quiet"

// String returns the position as ParseJobsPosition reads it. It is empty for the beginning.
func (p JobsPosition) String() string {
	switch {
	case p == (JobsPosition{}):
		return ""
	case p.quiet:
		return quiet + "_" + p.name
	}
	return fmt.Sprintf("%d_%s", p.value, p.name)
}

// ParseJobsPosition reads what String has written.
func ParseJobsPosition(text string) (p JobsPosition, err error) {
	if text == "" {
		return p, nil
	}
	value, name, _ := strings.Cut(text, "_")
	p = JobsPosition{quiet: value == quiet, name: name}
	if !p.quiet {
		p.value, err = strconv.ParseInt(value, 10, 64)
	}
	if err != nil || p.value < 0 || p.String() != text || action.CheckText("after", name) != nil {
		return p, fmt.Errorf("%q is not the position of a job: want the one that the page before gave", text)
	}
	return p, nil
}

// JobsFilter narrows Jobs. Zero fields do not narrow.
type JobsFilter struct {
	Search string // a part of the name, in upper or lower case
	Order  JobsOrder
	After  JobsPosition // of the same order
	Limit  int          // default 50, at most 200
}

// Jobs returns a page of the jobs that were ever enqueued, with the results of their checks of the last day. A job
// whose place in the order changes between two pages may be on both or on neither.
func (b *Board) Jobs(ctx context.Context, f JobsFilter, acted int64) (Jobs, error) {
	if err := cmp.Or(checkPage(&f.Limit), f.Order.check(), action.CheckWords(f.Search)); err != nil {
		return Jobs{}, err
	}
	o, err := b.Overview(ctx, acted)
	if err != nil {
		return Jobs{}, err
	}
	key := keyOf("jobs", f.Search, fmt.Sprint(f.Order), f.After.String(), fmt.Sprint(f.Limit))
	return read(ctx, b.source, key, acted, overviewAge, func(ctx context.Context, r *reader) (Jobs, error) {
		if f.Order.By == byName {
			return b.readByName(ctx, r, f, &o)
		}
		v, err := b.readLoud(ctx, r, f, &o)
		if err == nil && v.After == nil {
			err = b.readQuiet(ctx, r, f, &o, &v)
		}
		return v, err
	})
}

// readLoud reads the part of a page that the overview knows something about.
func (s *source) readLoud(ctx context.Context, r *reader, f JobsFilter, o *Overview) (v Jobs, err error) {
	behind := func(j *JobLine) int { return f.Order.compare(f.Order.position(j), f.After) }
	loud := slices.DeleteFunc(o.JobLines(), func(j JobLine) bool {
		return f.After.quiet || f.After != (JobsPosition{}) && behind(&j) <= 0 ||
			!strings.Contains(strings.ToLower(j.JobExec), strings.ToLower(f.Search))
	})
	slices.SortFunc(loud, func(a, b JobLine) int {
		return f.Order.compare(f.Order.position(&a), f.Order.position(&b))
	})
	if len(loud) >= f.Limit { // quiet ones may follow
		loud = loud[:f.Limit]
		v.After = new(f.Order.position(&loud[f.Limit-1]).String())
	}
	known, err := s.readJobs(ctx, r, jobNames{Names: namesOf(loud)})
	of := make(map[string]JobLine, len(known))
	for _, k := range known {
		of[k.JobExec] = k
	}
	v.Jobs = []JobLine{}
	for _, j := range loud {
		if k, is := of[j.JobExec]; is { // the job of an old row may have no name any more
			v.Jobs = append(v.Jobs, j.known(k))
		}
	}
	return v, err
}

// known adds what the table of jobs knows of a job of the overview.
func (j JobLine) known(k JobLine) JobLine {
	j.Registered, j.Paused, j.ServedAt, j.SLA = k.Registered, k.Paused, k.ServedAt, k.SLA
	return j
}

// readByName reads a page of jobs in the order of their names.
func (s *source) readByName(ctx context.Context, r *reader, f JobsFilter, o *Overview) (v Jobs, err error) {
	list, err := s.readJobs(ctx, r, jobNames{
		Limit: f.Limit + 1, Search: f.Search, After: f.After.name, Desc: f.Order.Desc,
	})
	v.Jobs, v.After = cutPage(list, f.Limit, func(j JobLine) string { return JobsPosition{name: j.JobExec}.String() })
	loud := map[string]JobLine{}
	for _, j := range o.JobLines() {
		loud[j.JobExec] = j
	}
	for i, k := range v.Jobs {
		if j, is := loud[k.JobExec]; is {
			v.Jobs[i] = j.known(k)
		}
	}
	return v, err
}

// readQuiet fills a page up with jobs that the overview does not have.
func (s *source) readQuiet(ctx context.Context, r *reader, f JobsFilter, o *Overview, v *Jobs) error {
	n := f.Limit - len(v.Jobs)
	ask := jobNames{Limit: n + 1, Search: f.Search, Without: namesOf(o.JobLines())}
	if f.After.quiet {
		ask.After = f.After.name
	}
	list, err := s.readJobs(ctx, r, ask)
	list, v.After = cutPage(list, n, func(j JobLine) string { return JobsPosition{quiet: true, name: j.JobExec}.String() })
	v.Jobs = append(v.Jobs, list...)
	return err
}

// JobLines returns the jobs of an overview that were checked, are in trouble or are paused, the worst
// first. Registered is not set.
func (o *Overview) JobLines() []JobLine {
	lines := map[string]*JobLine{}
	line := func(name string) *JobLine {
		if lines[name] == nil {
			lines[name] = &JobLine{JobStatus: ledger.JobStatus{JobExec: name}}
		}
		return lines[name]
	}
	for _, status := range o.Jobs {
		line(status.JobExec).JobStatus = status
	}
	for name, n := range o.Due {
		line(name).OverdueRows = view.NewOverdueRows(n)
	}
	for i := range o.Paused {
		line(o.Paused[i].JobExec).Paused = &o.Paused[i]
	}
	list := make([]JobLine, 0, len(lines))
	for _, j := range lines {
		j.State = StateOf(&j.JobStatus, j.Paused != nil, j.OverdueCount())
		list = append(list, *j)
	}
	worst := JobsOrder{}
	slices.SortFunc(list, func(a, b JobLine) int { return worst.compare(worst.position(&a), worst.position(&b)) })
	return list
}

func namesOf(list []JobLine) []string {
	return seq.Map(list, func(j JobLine) string { return j.JobExec })
}

// jobNames selects jobs by name.
type jobNames struct {
	Names []string // these, if it is not nil; the other fields are zero then
	// The first Limit after After that have Search in their name, without those of Without; with Desc the last ones
	// before After.
	Limit         int
	After, Search string
	Without       []string
	Desc          bool
}

// readJobs reads jobs by name, as idle ones.
func (s *source) readJobs(ctx context.Context, r *reader, ask jobNames) ([]JobLine, error) {
	knows, err := r.ledger.In(reserved.Caller{}, r).Knows(ctx, s.cfg.Runner.Registry)
	if err != nil {
		return nil, err
	}
	args := []any{pq.StringArray(ask.Names), ask.Limit, ask.After, ask.Search, pq.StringArray(ask.Without), ask.Desc}
	list, err := rows(ctx, r, pg.BoardJobs, args, func(row *sql.Rows, j *JobLine) error {
		var paused *time.Time
		var by string
		err := row.Scan(&j.JobExec, pg.UTC(&paused), &by, pg.UTC(&j.ServedAt), pg.Micros(&j.SLA))
		j.Registered, j.State = knows(j.JobExec), JobIdle
		if paused != nil {
			j.Paused = &admin.PausedJob{JobExec: j.JobExec, PausedAt: *paused, PausedBy: by}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the jobs: %w", err)
	}
	return list, nil
}
