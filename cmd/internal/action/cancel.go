package action

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Wait counts the waiting checks of a key.
type Wait struct {
	Rows  int64
	First time.Time // slot
	Job   string    // of one of them
	Mark  int64     // a checksum of these checks, their slots, and what has happened to them
	Stay  int64     // checks of rules, which are not counted
	ID    int64     // of one of the rows
}

// Waiting returns the waiting checks of a key. A key without a job selects those of every job, with
// unowned except those of schedules and rules. A null item selects every item.
func Waiting(
	ctx context.Context, db pg.Querier, schema pgsql.Schema, key jobs.Key, item sql.NullString, unowned bool,
) (w Wait, err error) {
	job := sql.NullString{String: key.JobExec, Valid: key.JobExec != ""}
	err = pg.One(ctx, db, pg.BoardWaiting.In(schema),
		[]any{key.EntityName, key.EntityKey, job, item, unowned}, &w.Rows, pg.UTC(&w.First), &w.Job, &w.Mark, &w.Stay, &w.ID)
	if err != nil {
		return w, fmt.Errorf("count what waits of %s %s: %w", key.EntityName, key.EntityKey, err)
	}
	return w, nil
}

// waiting returns the waiting check of a key. For a key without a job it returns the checks of the
// entity that an operator may end. It returns none for a key with a job whose check is another row than the given one;
// 0: any row.
func (tx Tx) waiting(ctx context.Context, key jobs.Key, row int64) (w Wait, err error) {
	item := sql.NullString{String: key.ItemKey, Valid: key.JobExec != ""}
	w, err = Waiting(ctx, tx.Tx, tx.Schema, key, item, key.JobExec == "")
	if row != 0 && w.ID != row {
		return Wait{}, err
	}
	return w, err
}

// checkKey refuses a key that no check of an operator has.
func checkKey(s *Store, key jobs.Key) error {
	if key.JobExec == schedule.JobExec {
		return s.ofSchedule(key.EntityKey)
	}
	return cmp.Or(CheckText("entity_name", key.EntityName), CheckText("entity_key", key.EntityKey),
		CheckWords(key.JobExec, key.ItemKey))
}

// goesOn warns of a check that may run while it is cancelled.
const goesOn = "A check whose slot has begun may be running. It goes on running, but its result is not recorded."

// Cancel ends the waiting checks of an entity as cancelled. A job and an item narrow it. Without a job,
// those of schedules and rules stay.
type Cancel struct {
	jobs.Key
	row int64 // only this row; 0: any
}

var cancelForm = form(Form{
	Name: "cancel", Summary: "End the waiting checks of an entity",
	Title: "Cancel", Verb: "Cancel the checks", Lead: "Waiting checks end as cancelled, and stay in history.",
	Fields: []Field{nameField, keyField, anyJob, itemField},
}, func(in *Input) Cancel { return Cancel{Key: in.key()} })

// Target names the checks.
func (c Cancel) Target() string {
	if c.JobExec == "" {
		return c.EntityName + " " + c.EntityKey
	}
	return c.String()
}

func (c Cancel) check(s *Store) error {
	if c.ItemKey != "" && c.JobExec == "" {
		return &jobs.FieldError{Field: "item_key", Message: "needs job_exec"}
	}
	return checkKey(s, c.Key)
}

func (c Cancel) plan(ctx context.Context, tx Tx) (plan Plan, err error) {
	w, err := tx.waiting(ctx, c.Key, c.row)
	if err != nil {
		return plan, err
	}
	if w.Rows == 0 && c.JobExec == "" && c.EntityName == schedule.EntityName {
		return plan, tx.ofEntitySchedule(c.EntityKey)
	}
	plan.Rows, plan.Nothing, plan.Fingerprint = w.Rows, w.Rows == 0, w
	plan.Text = fmt.Sprintf("Cancels %s of %s", spoken.Count(w.Rows, "waiting check", "waiting checks"), c.Target())
	if w.Rows == 1 {
		plan.Text += ": " + w.Job + " in slot " + clock(w.First)
	}
	plan.Warnings = staying(w.Stay)
	if w.Rows == 0 {
		return plan, tx.requireJob(ctx, c.JobExec)
	}
	if !w.First.After(tx.now()) {
		plan.Warnings = append(plan.Warnings, goesOn)
	}
	plan.Warnings = append(plan.Warnings, tx.again(ctx, c.JobExec)...)
	return plan, nil
}

// staying warns of the checks of rules that stay.
func staying(checks int64) []string {
	if checks == 0 {
		return nil
	}
	return []string{spoken.Count(checks, "check of a rule stays", "checks of rules stay") +
		", because rules keep them in step with their tables: give the name of the rule as the job to cancel " +
		spoken.Noun(checks, "it", "them")}
}

func (c Cancel) do(ctx context.Context, tx Tx) (Report, error) {
	done := Cancelled{}
	if c.row != 0 {
		if w, err := tx.waiting(ctx, c.Key, c.row); err != nil || w.Rows == 0 {
			return done, err
		}
	}
	var err error
	if c.JobExec == "" {
		done.Cancelled, err = tx.Client.CancelEntity(ctx, tx.Tx, c.EntityName, c.EntityKey)
	} else {
		var found bool
		found, err = tx.Client.Cancel(ctx, tx.Tx, c.Key)
		if found {
			done.Cancelled = 1
		}
	}
	switch {
	case err != nil:
	case done.Cancelled == 0:
		err = tx.requireJob(ctx, c.JobExec)
	default:
		done.again = tx.again(ctx, c.JobExec)
	}
	return done, err
}

// again says that the cancelled rows of a rule come back. It is empty for another job, and if the login
// may not read the rules: it may not cancel their checks either.
func (s *Store) again(ctx context.Context, job string) []string {
	if job == "" || !s.isRule(ctx, job) {
		return nil
	}
	return []string{fmt.Sprintf("%s is a rule: its cancelled rows wait again after: %s rules apply --again -f FILE",
		job, s.Self)}
}

// Cancelled reports on Cancel and CancelMany.
type Cancelled struct {
	Cancelled int64 `json:"cancelled"` // rows that ended as cancelled
	// Left are the checks that other transactions have locked or moved.
	Left  int64 `json:"left"`
	again []string
}

// String says how many were cancelled.
func (c Cancelled) String() string {
	text := spoken.Count(c.Cancelled, "check was", "checks were") + " cancelled"
	if c.Cancelled == 0 && c.Left == 0 {
		return "nothing was cancelled: no such check waits"
	}
	if c.Left > 0 {
		text += fmt.Sprintf(", and %s because another transaction has locked or moved %s",
			spoken.Count(c.Left, "was left", "were left"), spoken.Noun(c.Left, "it", "them"))
	}
	for _, why := range c.again {
		text += ". " + why
	}
	return text
}
