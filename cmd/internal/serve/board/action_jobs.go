package board

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
)

// paused reports whether a job is paused. Returns ErrNotFound if the job is unknown.
func (p *planner) paused(ctx context.Context, job string) (bool, error) {
	if err := checkText("job_exec", job); err != nil {
		return false, err
	}
	lines, err := p.from.readJobs(ctx, p.reader, job, nil)
	if err != nil {
		return false, err
	}
	if len(lines) > 0 {
		return lines[0].Paused != nil, nil
	}
	knows, err := p.ledger.In(p).Knows(ctx, p.from.cfg.Runner.Registry)
	if err == nil && !knows(job) {
		err = notFound("job " + job)
	}
	return false, err
}

// PauseJob lets the rows of a job wait.
type PauseJob struct {
	JobExec string `json:"job_exec"`
}

// pauseJobForm is the form of PauseJob.
var pauseJobForm = form(Form{
	Path: "pause-job", Summary: "Let the checks of a job wait",
	Title: "Pause a job", Verb: "Pause",
	Lead:   "Its rows wait until the job is resumed. Running checks finish.",
	Fields: []Field{jobField},
}, func(in *Input) PauseJob { return PauseJob{JobExec: in.Text("job")} })

func (a PauseJob) name() string   { return "pause job" }
func (a PauseJob) target() string { return a.JobExec }

func (a PauseJob) plan(ctx context.Context, p *planner) (plan Plan, err error) {
	if plan.Nothing, err = p.paused(ctx, a.JobExec); err != nil {
		return plan, err
	}
	if plan.Nothing {
		plan.Text = a.JobExec + " is paused already"
		return plan, nil
	}
	ahead, err := readAhead(ctx, p.reader, a.JobExec, p.grid().Floor(p.now()))
	if err != nil {
		return plan, err
	}
	// Rows change between preview and confirmation, so these numbers are not confirmed.
	var n ledger.Count
	for _, at := range ahead {
		n = n.Plus(at.Count())
	}
	plan.Text = fmt.Sprintf("It pauses %s: %s in %s of the next day",
		a.JobExec, n.Of("row waits", "rows wait"),
		spoken.Count(int64(len(ahead)), "slot", "slots"))
	plan.Warnings = []string{"A run finishes the rows that it has claimed."}
	return plan, nil
}

func (a PauseJob) do(ctx context.Context, tx *sqlx.Tx, t *tools) (string, error) {
	_, err := admin.New(t.client).Pause(ctx, tx, a.JobExec)
	return a.JobExec + " is paused", err
}

// ResumeJob ends the pause of a job.
type ResumeJob struct {
	JobExec string `json:"job_exec"`
}

// resumeJobForm is the form of ResumeJob.
var resumeJobForm = form(Form{
	Path: "resume-job", Summary: "End the pause of a job",
	Title: "Resume a job", Verb: "Resume",
	Lead:   "Its rows run in their slots again. Catch-up takes the rows whose slots have passed.",
	Fields: []Field{jobField},
}, func(in *Input) ResumeJob { return ResumeJob{JobExec: in.Text("job")} })

func (a ResumeJob) name() string   { return "resume job" }
func (a ResumeJob) target() string { return a.JobExec }

func (a ResumeJob) plan(ctx context.Context, p *planner) (plan Plan, err error) {
	paused, err := p.paused(ctx, a.JobExec)
	if err != nil {
		return plan, err
	}
	if plan.Nothing = !paused; plan.Nothing {
		plan.Text = a.JobExec + " is not paused"
		return plan, nil
	}
	plan.Text = "It ends the pause of " + a.JobExec
	since, err := p.ledger.In(p).OverdueSince(ctx, admin.New(p.client), p, a.JobExec)
	if since != nil {
		plan.Warnings = []string{
			"Its checks in past slots, from " + clock(*since) + " on, are overdue from then on, and catch-up takes them.",
		}
	}
	return plan, err
}

func (a ResumeJob) do(ctx context.Context, tx *sqlx.Tx, t *tools) (string, error) {
	_, err := admin.New(t.client).Resume(ctx, tx, a.JobExec)
	return a.JobExec + " is resumed", err
}

// CatchUp repairs missed slots, as the command does, for the jobs that are registered in the binary
// that serves. It goes on when Do has returned, one at a time.
type CatchUp struct {
	Mode   slots.Mode `json:"mode"` // run, defer or expire
	Since  time.Time  `json:"since,omitzero"`
	Until  time.Time  `json:"until,omitzero"`
	Job    string     `json:"job"`    // empty: every job
	Limit  int64      `json:"limit"`  // rows at most; 0: all
	Spread int        `json:"spread"` // slots over which defer spreads the rows; 0: one
}

// catchUpForm is the form of CatchUp.
var catchUpForm = form(Form{
	Path: "catch-up", Summary: "Repair missed slots",
	Title: "Catch up", Verb: "Catch up",
	Lead: "Repairs slots that were missed, left open, or have rows that came late: " +
		"the oldest first, for the jobs that are registered with the binary that serves this page.",
	Fields: []Field{
		{Name: "mode", Label: "What to do with the rows", Options: []Option{
			{string(slots.ModeRun), "run: check each now, or apply the misfire policy of its job"},
			{string(slots.ModeDefer), "defer: move them to coming slots, unchecked"},
			{string(slots.ModeExpire), "expire: end rows past the deadline of their job"},
		}},
		{Name: "job", Label: "Job", Hint: "Empty: every job."},
		{Name: "since", Label: "From slot", Hint: pastHint},
		{Name: "until", Label: "Up to slot", Hint: pastHint},
		{Name: "limit", Label: "Maximum number of rows", Hint: "Empty: all."},
		{Name: "spread", Label: "Slots over which defer spreads", Hint: "Empty: the next one."},
	},
}, func(in *Input) CatchUp {
	return CatchUp{
		Mode: slots.Mode(cmp.Or(in.Text("mode"), string(slots.ModeRun))), Job: in.Text("job"),
		Since: in.past("since"), Until: in.past("until"),
		Limit: in.number("limit", 1<<40), Spread: int(in.number("spread", 100_000)),
	}
})

func (c CatchUp) name() string { return "catch-up" }
func (c CatchUp) target() string {
	text := "missed slots"
	if c.Job != "" {
		text += " of job " + c.Job
	}
	if !c.Since.IsZero() {
		text += " from " + clock(c.Since)
	}
	if !c.Until.IsZero() {
		text += " until " + clock(c.Until)
	}
	return text
}

func (c CatchUp) config(dryRun bool) slots.CatchUp {
	return slots.CatchUp{
		Mode: c.Mode, Since: c.Since, Until: c.Until, Job: c.Job, Limit: c.Limit,
		Spread: c.Spread, DryRun: dryRun,
	}
}

// modes describes what each mode does with rows.
var modes = map[slots.Mode]string{
	slots.ModeRun:    "checks each row, or defers or skips it, by the misfire policy of its job",
	slots.ModeDefer:  "moves every row to the next slots, unchecked",
	slots.ModeExpire: "ends the rows that are past the deadline of their job, and leaves the other rows",
}

func (c CatchUp) plan(ctx context.Context, p *planner) (plan Plan, err error) {
	does, known := modes[c.Mode]
	if !known {
		return plan, &jobs.FieldError{Field: "mode", Message: "must be run, defer or expire"}
	}
	if err := checkWords(c.Job); err != nil {
		return plan, err
	}
	knows, err := p.ledger.In(p).Knows(ctx, p.from.cfg.Runner.Registry)
	if err != nil {
		return plan, err
	}
	if err := c.requireJob(ctx, p, knows); err != nil {
		return plan, err
	}
	runner, err := slots.NewRunner(ctx, p.from.cfg.Runner)
	if err != nil {
		return plan, err
	}
	caught, err := runner.CatchUp(ctx, c.config(true))
	if err != nil {
		return plan, &RefusedError{err.Error()}
	}
	if err := p.slotIndexOnly(ctx); err != nil {
		return plan, err
	}
	status, err := p.ledger.In(p).Status(ctx, c.Since)
	if err != nil {
		return plan, err
	}
	w := c.left(knows, caught, status)
	rows := w.rows
	if c.Limit > 0 && c.Limit < rows.N {
		rows = ledger.Count{N: c.Limit}
	}
	plan.Rows, plan.Slots = rows.N, w.slots+caught.Empty
	plan.Nothing = plan.Slots == 0
	plan.Text = fmt.Sprintf("It %s: %s in %s, and it closes %s without rows", does,
		c.howMany(rows),
		spoken.Count(w.slots, "slot", "slots"), spoken.Count(caught.Empty, "missed slot", "missed slots"))
	plan.Warnings = w.warnings(c)
	plan.fingerprint = []any{w.slots, caught.Empty, w.unregistered}
	return plan, nil
}

// requireJob refuses a job that neither this binary nor the database has.
func (c CatchUp) requireJob(ctx context.Context, p *planner, knows func(job string) bool) error {
	if c.Job == "" || knows(c.Job) {
		return nil
	}
	const most = 100_000 // names that are read
	names, err := admin.New(p.client).JobNames(ctx, p, most)
	if err != nil || slices.Contains(names, c.Job) {
		return err
	}
	for d := range p.from.cfg.Runner.Registry.All() {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return &jobs.FieldError{Field: "job", Message: "is unknown to this binary and to the database" +
		cmp.Or(cli.Meant(c.Job, names), ", which have: "+spoken.List(names))}
}

// left counts what catch-up finds.
type left struct {
	slots        int64
	rows         ledger.Count
	live         int64    // slots that catch-up leaves to a run
	unregistered []string // jobs that catch-up leaves to another binary
}

func (c CatchUp) left(knows func(job string) bool, caught slots.Caught, status ledger.Status) (w left) {
	trouble := map[time.Time]ledger.Trouble{}
	for _, t := range slices.Concat(status.Trouble, status.Running) {
		trouble[t.Slot] = t
	}
	for _, missed := range caught.Slots {
		t := trouble[missed.Slot]
		if t.Live > 0 {
			w.live++
			continue
		}
		w.slots++
		for _, j := range t.Jobs {
			switch {
			case c.Job != "" && c.Job != j.JobExec:
			case !knows(j.JobExec):
				w.unregistered = append(w.unregistered, j.JobExec)
			default:
				w.rows = w.rows.Plus(j.Waiting)
			}
		}
	}
	w.slots += caught.MoreSlots
	w.rows.AtLeast = w.rows.AtLeast || caught.MoreSlots > 0 // of which the rows are not counted
	slices.Sort(w.unregistered)
	w.unregistered = slices.Compact(w.unregistered)
	return w
}

func (w left) warnings(c CatchUp) (list []string) {
	if len(w.unregistered) > 0 {
		list = append(list, "The rows of these jobs stay, because this binary does not have the jobs: "+
			strings.Join(w.unregistered, ", ")+
			". Run catch-up with a binary that has them.")
	}
	if w.live > 0 {
		list = append(list, spoken.Count(w.live, "slot is", "slots are")+" left to the run that works on it.")
	}
	if c.Mode == slots.ModeExpire && w.rows.N > 0 {
		list = append(list,
			"The number of rows is an upper bound: it counts all late rows, but only rows past their deadline end.")
	}
	if c.Mode == slots.ModeRun && w.rows.N > 0 {
		list = append(list, "The checks run in this server.")
	}
	return list
}

// howMany says how many rows catch-up handles. Only a look at each row finds which are past their
// deadline.
func (c CatchUp) howMany(rows ledger.Count) string {
	text := rows.Of("row", "rows")
	if c.Mode == slots.ModeExpire && rows.N > 0 {
		text = "those of " + text
	}
	return text
}

func (c CatchUp) run(ctx context.Context, s *source, _ *tools, _ web.Who) (string, error) {
	runner, err := slots.NewRunner(ctx, s.cfg.Runner)
	if err != nil {
		return "", err
	}
	caught, err := runner.CatchUp(ctx, c.config(false))
	n := caught.Total
	text := fmt.Sprintf("%s worked on, %d without rows closed; of %s %d moved and %d failed",
		spoken.Count(n.Slots, "slot was", "slots were"),
		caught.Empty, spoken.Count(n.Checked, "row", "rows"), n.Rescheduled, n.Failed)
	if open := n.Slots - n.Done; open > 0 {
		text += fmt.Sprintf("; %s open", spoken.Count(open, "slot was left", "slots were left"))
	}
	if err != nil && !errors.Is(err, slots.ErrStopped) {
		text += ": " + err.Error()
	}
	return text, err
}
