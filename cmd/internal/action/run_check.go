package action

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/locked"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// RunCheck runs a waiting check now: it moves the check into the current slot, and runs the rows of its job there. It
// goes on when Do has returned.
type RunCheck struct{ jobs.Key }

var runCheckForm = form(Form{
	Name: "run check", Summary: "Run a waiting check now",
	Title: "Run a check now", Verb: "Run",
	Lead:   "The check is due now instead of in its slot, because you ask for it. It runs in this server.",
	Fields: []Field{jobField, nameField, keyField, itemField},
}, func(in *Input) RunCheck { return RunCheck{in.key()} })

// Target names the check.
func (a RunCheck) Target() string { return a.String() }

func (a RunCheck) check(s *Store) error {
	switch a.JobExec {
	case "":
		return &jobs.FieldError{Field: "job_exec", Message: "must be given"}
	case schedule.JobExec:
		return refusef("the checks of job %q belong to schedules; use: %s schedules trigger %s",
			schedule.JobExec, s.Self, idWord(a.EntityKey))
	}
	return checkKey(s, a.Key)
}

func (a RunCheck) plan(ctx context.Context, tx Tx) (plan Plan, err error) {
	found, err := a.find(ctx, tx)
	if err != nil {
		return plan, err
	}
	plan.Rows, plan.Fingerprint = 1, []any{found.ID, found.NextCheckAt}
	plan.Text = fmt.Sprintf("Runs the check %s now, instead of in slot %s", a.Target(), clock(found.NextCheckAt))
	plan.Warnings = []string{"Other due checks of the job in the current slot run, too."}
	return plan, nil
}

// find returns the waiting row. It refuses a check that cannot run now.
func (a RunCheck) find(ctx context.Context, tx Tx) (found jobs.FutureJob, err error) {
	list, err := admin.New(tx.Client).Show(ctx, tx.Tx, a.EntityName, a.EntityKey)
	if err != nil {
		return found, err
	}
	i := slices.IndexFunc(list, func(j jobs.FutureJob) bool { return j.Key() == a.Key })
	if i < 0 {
		return found, tx.noCheck(ctx, a.Key)
	}
	knows, err := tx.Ledger.In(reserved.Caller{}, tx.Tx).Knows(ctx, tx.Runner.Registry)
	if err != nil {
		return found, err
	}
	if !knows(a.JobExec) {
		return found, refusef("job %s is not registered here: run the command with a binary that has it", a.JobExec)
	}
	switch paused, err := tx.paused(ctx, a.JobExec); {
	case err != nil:
		return found, err
	case paused != nil:
		return found, refusef("%s is paused: %s", a.JobExec, tx.resume(ctx, a.JobExec))
	}
	return list[i], a.free(ctx, tx, list[i].NextCheckAt)
}

// free refuses a due check whose slot another runner works on, because the runner may be checking it. It refuses every
// check while others work on the current slot, which would leave the check there to catch-up.
func (a RunCheck) free(ctx context.Context, tx Tx, due time.Time) error {
	current := tx.grid().Floor(tx.now())
	for _, slot := range slices.Compact([]time.Time{grid.Earlier(due, current), current}) {
		claims, err := tx.Ledger.In(reserved.Caller{}, tx.Tx).Claims(ctx, slot)
		if err != nil {
			return err
		}
		for _, c := range claims {
			if slot.Equal(due) && slices.Contains(c.Jobs, a.JobExec) {
				return refusef("%s holds due checks of %s in slot %s, and may be running this one: see %s slots show %[3]s",
					c.Runner, a.JobExec, clock(slot), tx.Self)
			}
			if slot.Equal(current) && c.Live {
				return refusef("%s works on slot %s, in which the check would run: try again when the slot is done, or when "+
					"the lease has ended; see %s slots show %[2]s", c.Runner, clock(slot), tx.Self)
			}
		}
	}
	return nil
}

func (a RunCheck) run(ctx context.Context, s *Store, actor string) (Report, error) {
	runner, err := slots.NewRunner(ctx, s.Runner)
	if err != nil {
		return nil, err
	}
	var before jobs.FutureJob
	var slot time.Time
	err = pgsql.InTx(ctx, s.DB, func(tx *sqlx.Tx) (err error) {
		if err := jobs.SetActor(ctx, tx, actor); err != nil {
			return err
		}
		if before, err = a.find(ctx, Tx{Store: s, Tx: tx}); err == nil {
			slot, err = a.move(ctx, tx, s)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	result, ran := runner.RunJob(ctx, slot, a.JobExec)
	report, err := a.report(context.WithoutCancel(ctx), s, before, slot)
	if report.Checked && locked.Only(ran) {
		report.WaitedFor = result.LockedBy
		ran = nil // it is about other checks
	}
	if report.failed = err; !locked.Only(ran) {
		report.failed = errors.Join(ran, err)
	}
	return report, errors.Join(ran, err)
}

// move moves the check into the current slot. A client whose clock is before that slot may do so.
func (a RunCheck) move(ctx context.Context, tx *sqlx.Tx, s *Store) (time.Time, error) {
	slot := s.grid().Floor(s.now())
	earlier, err := jobs.NewClient(ctx, s.DB, jobs.Config{
		Schema: string(s.Schema), Now: func() time.Time { return slot.Add(-time.Microsecond) },
	})
	if err != nil {
		return slot, err
	}
	to, found, err := earlier.Reschedule(ctx, tx, a.Key, slot)
	if err == nil && (!found || !to.Equal(slot)) {
		err = errors.New("the check or the width of the slots was changed meanwhile, and nothing was done: try again")
	}
	return slot, err
}

// report reads what became of the row.
func (a RunCheck) report(ctx context.Context, s *Store, before jobs.FutureJob, slot time.Time) (Ran, error) {
	ran := Ran{Slot: slot, check: a.Target(), now: s.now()}
	ran.why = fmt.Sprintf("%s why %s %s", s.Self, spoken.Word(a.EntityName), spoken.Word(a.EntityKey))
	var again *time.Time
	operator := admin.New(s.Client)
	list, err := operator.Show(ctx, s.DB, a.EntityName, a.EntityKey)
	for _, j := range list {
		if j.ID == before.ID {
			ran.Next, ran.Checked = &j.NextCheckAt, !j.NextCheckAt.Equal(slot)
			if j.ErrorCount > before.ErrorCount {
				ran.Error = j.LastError
			}
			return ran, err
		}
		if j.Key() == a.Key { // a request while the check ran
			again = &j.NextCheckAt
		}
	}
	if err != nil {
		return ran, err
	}
	filter := admin.HistoryFilter{EntityName: a.EntityName, EntityKey: a.EntityKey, JobExec: a.JobExec}
	for row, err := range operator.History(ctx, s.DB, filter) {
		if err != nil {
			return ran, err
		}
		if row.ID == before.ID {
			ran.Checked, ran.Next, ran.Outcome, ran.Took = true, again, &row.Outcome, duration.Text(row.Duration)
			if row.Outcome == jobs.OutcomeFailed {
				ran.Error = row.LastError
			}
			break
		}
	}
	return ran, nil
}

// Ran reports on RunCheck.
type Ran struct {
	Slot    time.Time     `json:"slot"`      // in which the check ran; UTC
	Checked bool          `json:"ran"`       // false: it still waits in the slot, or that is not known
	Outcome *jobs.Outcome `json:"outcome"`   // null: it waits, or that is not known
	Next    *time.Time    `json:"next_slot"` // UTC; null: the row has ended, or that is not known
	Error   string        `json:"error"`     // of the check; empty: none
	Took    duration.Text `json:"took"`      // run time of the check
	// which session has locked other due checks of the job, which are left to catch-up; empty: none
	WaitedFor string `json:"waited_for"`
	check     string
	why       string // the command that shows the timeline
	now       time.Time
	failed    error // of the run, or of the look at what became of the row; nil: they left no more than locked rows
}

// String says what the check answered, and when it is looked at again.
func (r Ran) String() string {
	if !r.Checked {
		return r.unchecked()
	}
	text := r.check + " was checked"
	switch {
	case r.Outcome != nil:
		text += fmt.Sprintf(", and ended as %s", *r.Outcome)
	case r.Error == "":
		text += ", and asked for another check"
	}
	if r.Error != "" {
		text += ". Its error: " + r.Error
	}
	if r.Next != nil {
		text += ". It waits for slot " + spoken.Since(*r.Next, r.now)
	}
	if r.WaitedFor != "" {
		text += ". Other due checks of the job are locked, and left to catch-up: " + r.WaitedFor
	}
	return text
}

// unchecked is String for a check without an outcome. Its function may have run.
func (r Ran) unchecked() string {
	waits := fmt.Sprintf("it waits in slot %s, for the run of that slot or for catch-up", clock(r.Slot))
	switch {
	case r.Next == nil:
		return fmt.Sprintf("it is not known whether %s was checked: see %s", r.check, r.why)
	case errors.Is(r.failed, slots.ErrRefused):
		return fmt.Sprintf("the outcome of %s could not be recorded: %s", r.check, waits)
	case r.failed == nil || errors.Is(r.failed, slots.ErrStopped):
		return fmt.Sprintf("%s was not checked: %s", r.check, waits)
	}
	return fmt.Sprintf("it is not known whether %s was checked: %s", r.check, waits)
}

// Left reports whether nothing failed, but checks were left to catch-up: this one, or others of its job.
func (r Ran) Left() bool { return r.failed == nil && (!r.Checked || r.WaitedFor != "") }
