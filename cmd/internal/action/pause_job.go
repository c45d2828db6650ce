package action

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/ledger"
)

// PauseJob lets the rows of a job wait.
type PauseJob struct {
	JobExec string `json:"job_exec"`
}

var pauseJobForm = form(Form{
	Name: "pause job", Summary: "Let the checks of a job wait",
	Title: "Pause a job", Verb: "Pause",
	Lead:   "Its rows wait until the job is resumed. Running checks finish.",
	Fields: []Field{jobField},
}, func(in *Input) PauseJob { return PauseJob{JobExec: in.Text("job")} })

// Target is the job.
func (a PauseJob) Target() string { return a.JobExec }

func (a PauseJob) check(*Store) error { return CheckText("job_exec", a.JobExec) }

func (a PauseJob) plan(ctx context.Context, tx Tx) (plan Plan, err error) {
	paused, err := tx.paused(ctx, a.JobExec)
	if err != nil {
		return plan, err
	}
	if plan.Nothing = paused != nil; plan.Nothing {
		plan.Text = a.JobExec + " is paused already"
		return plan, nil
	}
	// Rows change between preview and confirmation, so these numbers are not confirmed.
	n, slots, err := tx.ahead(ctx, a.JobExec)
	plan.Text = fmt.Sprintf("Pauses %s: %s in %d of the next 96 slots",
		a.JobExec, n.Of("row waits", "rows wait"), slots)
	plan.Warnings = []string{"A run finishes the rows that it has claimed."}
	return plan, err
}

// paused returns the pause of a job. Nil: it is not paused. It refuses a job that is not known.
func (tx Tx) paused(ctx context.Context, job string) (*admin.PausedJob, error) {
	list, err := admin.New(tx.Client).Paused(ctx, tx.Tx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(list, func(p admin.PausedJob) bool { return p.JobExec == job }); i >= 0 {
		return &list[i], nil
	}
	return nil, tx.requireJob(ctx, job)
}

// ahead counts the rows of a job that wait from the current slot on, as far as its page shows them, and
// their slots.
func (tx Tx) ahead(ctx context.Context, job string) (n ledger.Count, slots int64, err error) {
	list, err := pg.Collect(ctx, tx.Tx, pg.BoardAhead.In(tx.Schema), []any{job, tx.grid().Floor(tx.now())},
		func(row *sql.Rows, n *ledger.Count) error { return row.Scan(new(time.Time), &n.N, &n.AtLeast) })
	if err != nil {
		return n, 0, fmt.Errorf("count the waiting rows of job %s: %w", job, err)
	}
	for _, of := range list {
		n = n.Plus(of)
	}
	return n, int64(len(list)), nil
}

func (a PauseJob) do(ctx context.Context, tx Tx) (Report, error) {
	if err := tx.requireJob(ctx, a.JobExec); err != nil {
		return nil, err
	}
	changed, err := admin.New(tx.Client).Pause(ctx, tx.Tx, a.JobExec)
	return Paused{a.JobExec, changed, tx.resume(ctx, a.JobExec)}, err
}

// resume returns the command that ends the pause of a job or a rule. A login that may not read the rules gets the
// command of a job, which does the same.
func (s *Store) resume(ctx context.Context, job string) string {
	verb := "jobs"
	if s.isRule(ctx, job) {
		verb = "rules"
	}
	return fmt.Sprintf("%s %s resume %s", s.Self, verb, spoken.Word(job))
}

// Paused reports on PauseJob.
type Paused struct {
	JobExec string `json:"job_exec"`
	Changed bool   `json:"changed"`
	resume  string // the command that ends the pause
}

// String says how to resume the job.
func (p Paused) String() string {
	switch {
	case !p.Changed:
		return p.JobExec + " is paused already"
	case p.JobExec == schedule.JobExec:
		return fmt.Sprintf("job %s is paused: no schedule publishes until: %s", p.JobExec, p.resume)
	}
	return fmt.Sprintf("%s is paused; its checks wait until: %s", p.JobExec, p.resume)
}
