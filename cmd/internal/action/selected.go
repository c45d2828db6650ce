package action

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
)

// mostSelected bounds the checks that an operator selects in a list.
const mostSelected = 200

// Row is one row that waits or is in history.
type Row struct {
	// of the row; 0: whichever row of the key waits. Retrying needs one.
	ID int64 `json:"id"`
	jobs.Key
}

var selectedField = Field{Name: "row", Label: "Selected", Fixed: true, Many: true}

// rows reads the rows that are selected in a list.
func (in *Input) rows() (list []Row) {
	for _, text := range in.Values[selectedField.Name] {
		var row Row
		if err := json.Unmarshal([]byte(text), &row); err != nil {
			in.Wrong[selectedField.Name] = "is no row of a list"
		}
		list = append(list, row)
	}
	if len(list) == 0 {
		in.Wrong[selectedField.Name] = "no row is selected: go back, and tick the box of a row"
	}
	return distinct(list)
}

// distinct returns each member of a list once, in the order of the list.
func distinct[T comparable](list []T) (once []T) {
	seen := map[T]bool{}
	for _, member := range list {
		if !seen[member] {
			seen[member] = true
			once = append(once, member)
		}
	}
	return once
}

// checkSelected refuses a selection of none or too many, and one with a member that the action refuses.
func checkSelected[A Quick](s *Store, field string, list []A) error {
	if len(list) < 1 || len(list) > mostSelected {
		return &jobs.FieldError{Field: field, Message: fmt.Sprintf("must be 1 to %d", mostSelected)}
	}
	for _, a := range list {
		if err := a.check(s); err != nil {
			return err
		}
	}
	return nil
}

// planSelected plans an action for each member. A member that has ended, or that the action leaves as it is, stops no
// other: a warning tells of it. text returns the sentence for several members. One member has the sentence of its own
// plan.
func planSelected[A Quick](
	ctx context.Context, tx Tx, list []A, text func(rows int64, changes []A) (string, error),
) (plan Plan, err error) {
	var changes []A
	plan.Members = make([]any, len(list))
	warn := func(texts ...string) { plan.Warnings = distinct(append(plan.Warnings, texts...)) }
	for i, a := range list {
		one, err := a.plan(ctx, tx)
		refused, isRefused := errors.AsType[*RefusedError](err)
		switch {
		case isRefused:
			warn(refused.Reason)
			continue
		case err != nil:
			return plan, err
		case one.Nothing && len(one.Warnings) == 0:
			warn("nothing changes for " + a.Target())
			continue
		case one.Nothing:
			warn(one.Warnings...)
			continue
		}
		plan.Rows, plan.Text = plan.Rows+one.Rows, one.Text
		plan.Members[i], changes = []any{one.Counts, one.Fingerprint}, append(changes, a)
		warn(one.Warnings...)
	}
	plan.Nothing, plan.Fingerprint = len(changes) == 0, plan.Members
	switch len(changes) {
	case 0:
		plan.Text = "Nothing changes for what is selected"
	case 1:
	default:
		plan.Text, err = text(plan.Rows, changes)
	}
	return plan, err
}

// only returns the members of a list to keep.
func only[T any](list []T, keep []bool) (kept []T) {
	for i, member := range list {
		if keep[i] {
			kept = append(kept, member)
		}
	}
	return kept
}

// doSelected does an action for each member that it changes.
func doSelected[A Quick](ctx context.Context, tx Tx, list []A, done func(Report)) error {
	for _, a := range list {
		report, err := a.do(ctx, tx)
		if _, refused := errors.AsType[*RefusedError](err); refused {
			continue
		}
		if err != nil {
			return err
		}
		done(report)
	}
	return nil
}

// names lists a selection by its keys.
func names[T any](list []T, key func(T) jobs.Key) string {
	return spoken.List(seq.Map(list, func(member T) string { return key(member).String() }))
}

func keyOfRow(row Row) jobs.Key { return row.Key }

// CancelSelected is Cancel for each of some checks.
type CancelSelected struct {
	Checks []Row `json:"checks"` // 1 to 200
}

var cancelSelectedForm = form(Form{
	Name: "cancel selected", Summary: "End some waiting checks by their keys",
	Title: "Cancel the selected checks", Verb: "Cancel the checks", Lead: cancelForm.Lead, Fields: []Field{selectedField},
}, func(in *Input) CancelSelected { return CancelSelected{in.rows()} })

// Target names the checks.
func (c CancelSelected) Target() string { return names(c.Checks, keyOfRow) }

// Only returns the action on some of the checks.
func (c CancelSelected) Only(keep []bool) Selection {
	return CancelSelected{only(distinct(c.Checks), keep)}
}

func (c CancelSelected) each() []Cancel {
	return seq.Map(distinct(c.Checks), func(row Row) Cancel { return Cancel{row.Key, row.ID} })
}

func (c CancelSelected) check(s *Store) error {
	for _, row := range c.Checks {
		if row.JobExec == "" { // it would be every check of the entity
			return &jobs.FieldError{Field: "job_exec", Message: "must be given"}
		}
	}
	return checkSelected(s, "checks", c.each())
}

func (c CancelSelected) plan(ctx context.Context, tx Tx) (Plan, error) {
	return planSelected(ctx, tx, c.each(), func(rows int64, changes []Cancel) (string, error) {
		return fmt.Sprintf("Cancels %s: %s", spoken.Count(rows, "waiting check", "waiting checks"),
			names(changes, func(a Cancel) jobs.Key { return a.Key })), nil
	})
}

func (c CancelSelected) do(ctx context.Context, tx Tx) (Report, error) {
	sum := Cancelled{}
	err := doSelected(ctx, tx, c.each(), func(r Report) {
		one := r.(Cancelled)
		sum.Cancelled += one.Cancelled
		sum.again = distinct(append(sum.again, one.again...))
	})
	return sum, err
}

// RescheduleSelected is Reschedule for each of some checks.
type RescheduleSelected struct {
	Checks []Row     `json:"checks"` // 1 to 200
	At     time.Time `json:"at"`     // each moves to the first slot at or after it
}

var rescheduleSelectedForm = form(Form{
	Name: "reschedule selected", Summary: "Move some waiting checks to another slot",
	Title: "Move the selected checks", Verb: "Move", Lead: "The checks wait for the first slot at or after the new time.",
	Fields: []Field{selectedField, atField},
}, func(in *Input) RescheduleSelected { return RescheduleSelected{in.rows(), in.ahead("at")} })

// Target names the checks.
func (m RescheduleSelected) Target() string { return names(m.Checks, keyOfRow) }

// Only returns the action on some of the checks.
func (m RescheduleSelected) Only(keep []bool) Selection {
	return RescheduleSelected{only(distinct(m.Checks), keep), m.At}
}

func (m RescheduleSelected) each() []Reschedule {
	return seq.Map(distinct(m.Checks), func(row Row) Reschedule {
		return Reschedule{Key: row.Key, At: m.At, row: row.ID}
	})
}

func (m RescheduleSelected) check(s *Store) error { return checkSelected(s, "checks", m.each()) }

func (m RescheduleSelected) plan(ctx context.Context, tx Tx) (Plan, error) {
	return planSelected(ctx, tx, m.each(), func(rows int64, changes []Reschedule) (string, error) {
		to, err := changes[0].target(ctx, tx)
		return fmt.Sprintf("Moves %s to slot %s: %s", spoken.Count(rows, "check", "checks"), clock(to),
			names(changes, func(a Reschedule) jobs.Key { return a.Key })), err
	})
}

func (m RescheduleSelected) do(ctx context.Context, tx Tx) (Report, error) {
	sum := Moved{}
	err := doSelected(ctx, tx, m.each(), func(r Report) {
		sum.Moved++
		sum.Slot = r.(Rescheduled).Slot
	})
	return sum, err
}

// Moved reports on RescheduleSelected.
type Moved struct {
	Moved int64     `json:"moved"` // checks that wait for the slot
	Slot  time.Time `json:"slot"`  // the new one; UTC
}

// String says how many wait for the slot.
func (m Moved) String() string {
	return spoken.Count(m.Moved, "check waits", "checks wait") + " for slot " + clock(m.Slot)
}

// RetrySelected is Retry for each of some rows in history.
type RetrySelected struct {
	Rows []Row     `json:"rows"`        // 1 to 200
	At   time.Time `json:"at,omitzero"` // zero: the next slot
}

var retrySelectedForm = form(Form{
	Name: "retry selected", Summary: "Retry some failed checks by their rows",
	Title: "Retry the selected checks", Verb: "Retry", Lead: retryForm.Lead,
	Fields: []Field{selectedField},
}, func(in *Input) RetrySelected { return RetrySelected{Rows: in.rows()} })

// Target names the rows.
func (a RetrySelected) Target() string { return names(a.Rows, keyOfRow) }

// Only returns the action on some of the rows.
func (a RetrySelected) Only(keep []bool) Selection {
	return RetrySelected{only(distinct(a.Rows), keep), a.At}
}

func (a RetrySelected) each() []Retry {
	return seq.Map(distinct(a.Rows), func(row Row) Retry {
		return Retry{FailedChecks: FailedChecks{
			ID: row.ID, JobExec: row.JobExec, EntityName: row.EntityName, EntityKey: row.EntityKey,
		}, At: a.At}
	})
}

func (a RetrySelected) check(s *Store) error {
	for _, row := range a.Rows {
		if err := cmp.Or(CheckText("entity_name", row.EntityName), CheckText("entity_key", row.EntityKey)); err != nil {
			return err
		}
		if row.ID == 0 { // it would be every failed check of the entity
			return &jobs.FieldError{Field: "id", Message: "must be given"}
		}
	}
	return checkSelected(s, "rows", a.each())
}

func (a RetrySelected) plan(ctx context.Context, tx Tx) (Plan, error) {
	return planSelected(ctx, tx, a.each(), func(rows int64, changes []Retry) (string, error) {
		return fmt.Sprintf("Puts %s back into slot %s, with a clean error count: %s",
			spoken.Count(rows, "failed check", "failed checks"), clock(changes[0].target(tx)),
			names(changes, func(a Retry) jobs.Key {
				return jobs.Key{JobExec: a.JobExec, EntityName: a.EntityName, EntityKey: a.EntityKey}
			})), nil
	})
}

func (a RetrySelected) do(ctx context.Context, tx Tx) (Report, error) {
	sum := Retried{}
	err := doSelected(ctx, tx, a.each(), func(r Report) {
		one := r.(Retried)
		sum.Retried, sum.Waiting = sum.Retried+one.Retried, sum.Waiting+one.Waiting
	})
	return sum, err
}
