package action

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
)

// Reschedule moves a waiting check to the first slot at or after At.
type Reschedule struct {
	jobs.Key
	At       time.Time `json:"at"`
	PushBack bool      `json:"push_back"` // only ever later
	// how long after its first slot push_back may move the check; 0: no limit
	MaxWait duration.Text `json:"max_wait"`
	row     int64         // only this row; 0: any
}

var rescheduleForm = form(Form{
	Name: "reschedule", Summary: "Move a waiting check to another slot",
	Title: "Move a check", Verb: "Move",
	Lead:   "The check waits for the first slot at or after the new time.",
	Fields: []Field{jobField, nameField, keyField, itemField, atField},
}, func(in *Input) Reschedule { return Reschedule{Key: in.key(), At: in.ahead("at")} })

// Target names the check.
func (m Reschedule) Target() string { return m.String() }

func (m Reschedule) check(s *Store) error {
	switch {
	case m.JobExec == "":
		return &jobs.FieldError{Field: "job_exec", Message: "must be given"}
	case m.At.IsZero():
		return &jobs.FieldError{Field: "at", Message: "must be an instant such as 2006-01-02T15:04:05Z"}
	case m.MaxWait < 0 || m.MaxWait > 0 && !m.PushBack:
		return &jobs.FieldError{Field: "max_wait", Message: "must be positive, and needs push_back"}
	}
	return cmp.Or(checkKey(s, m.Key), CheckInstant("at", m.At))
}

func (m Reschedule) plan(ctx context.Context, tx Tx) (plan Plan, err error) {
	w, err := tx.waiting(ctx, m.Key, m.row)
	if err != nil {
		return plan, err
	}
	if w.Rows == 0 {
		return plan, m.missing(ctx, tx)
	}
	to, err := m.target(ctx, tx)
	if err != nil {
		return plan, err
	}
	plan.Rows, plan.Nothing = 1, to.Equal(w.First)
	plan.Text = fmt.Sprintf("Moves the check %s from slot %s to slot %s", m.Target(), clock(w.First), clock(to))
	if m.At.Before(tx.now()) {
		plan.Warnings = append(plan.Warnings, "The instant has passed, so the check moves to the next slot.")
	}
	plan.Fingerprint = []any{w, to}
	return plan, nil
}

// target returns the slot to which the check moves. For a push back that depends on what the row has
// recorded, so target moves the row and undoes it.
func (m Reschedule) target(ctx context.Context, tx Tx) (to time.Time, err error) {
	if !m.PushBack {
		return grid.Later(tx.grid().Ceil(m.At), tx.grid().Next(tx.now())), tx.Client.ValidateDue(reserved.Caller{}, m.At)
	}
	if _, err := tx.Tx.ExecContext(ctx, "savepoint preview"); err != nil {
		return to, err
	}
	if to, _, err = m.move(ctx, tx); err == nil {
		_, err = tx.Tx.ExecContext(ctx, "rollback to savepoint preview")
	}
	return to, err
}

func (m Reschedule) move(ctx context.Context, tx Tx) (time.Time, bool, error) {
	if m.PushBack {
		return tx.Client.PushBack(ctx, tx.Tx, m.Key, m.At, time.Duration(m.MaxWait))
	}
	return tx.Client.Reschedule(ctx, tx.Tx, m.Key, m.At)
}

func (m Reschedule) do(ctx context.Context, tx Tx) (Report, error) {
	if m.row != 0 {
		w, err := tx.waiting(ctx, m.Key, m.row)
		if err == nil && w.Rows == 0 {
			err = m.missing(ctx, tx)
		}
		if err != nil {
			return nil, err
		}
	}
	slot, found, err := m.move(ctx, tx)
	if err == nil && !found {
		err = m.missing(ctx, tx)
	}
	return Rescheduled{slot.UTC()}, err
}

// missing returns the error of a check that does not wait.
func (m Reschedule) missing(ctx context.Context, tx Tx) error { return tx.noCheck(ctx, m.Key) }

// noCheck returns the error of an action on a check that does not wait.
func (tx Tx) noCheck(ctx context.Context, key jobs.Key) error {
	if err := tx.requireJob(ctx, key.JobExec); err != nil {
		return err
	}
	return refusef("no check %s waits: it has ended or was never requested; see its history with: %s why %s %s",
		key, tx.Self, spoken.Word(key.EntityName), spoken.Word(key.EntityKey))
}

// Rescheduled reports on Reschedule.
type Rescheduled struct {
	Slot time.Time `json:"slot"` // the new one; UTC
}

// String names the slot.
func (r Rescheduled) String() string { return "it waits for slot " + clock(r.Slot) }
