package action

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/admin"
)

var becauseField = Field{Name: "because", Label: "Because", Hint: "Why, for colleagues.", Required: true}

// Ack acknowledges checks that were given up and that no operator will retry. Empty fields do not narrow. It goes on
// when Do has returned.
type Ack struct {
	FailedChecks
	Until   time.Time `json:"until,omitzero"` // given up before
	Because string    `json:"because"`
}

var ackForm = form(Form{
	Name: "acknowledge", Path: "ack", Summary: "Acknowledge checks that were given up",
	Title: "Acknowledge failed checks", Verb: "Acknowledge",
	Lead:   "Checks that were given up, and that no operator will retry, are no problem any more. They stay in history.",
	Fields: append(slices.Clip(failedFields), becauseField),
}, func(in *Input) Ack { return Ack{FailedChecks: in.failed(), Because: in.Text("because")} })

func (a Ack) filter() admin.AckFilter {
	return admin.AckFilter{
		ID: a.ID, JobExec: a.JobExec, EntityName: a.EntityName, EntityKey: a.EntityKey, ItemKey: a.ItemKey,
		Since: a.Since, Until: a.Until, All: true,
	}
}

func (a Ack) final() {}

func (a Ack) check(*Store) error {
	return cmp.Or(a.FailedChecks.check(), CheckInstant("until", a.Until), admin.ValidateBecause(a.Because))
}

func (a Ack) plan(ctx context.Context, tx Tx) (plan Plan, err error) {
	found, err := admin.New(tx.Client).PreviewAck(ctx, tx.Tx, a.filter())
	if err != nil {
		return plan, err
	}
	plan.Rows, plan.Nothing, plan.Fingerprint = found.Rows, found.Rows == 0, found.Digest
	if plan.Nothing {
		plan.Text = "No check was given up that it would acknowledge: " + a.Target()
		return plan, tx.requireJob(ctx, a.JobExec)
	}
	plan.Text = "Acknowledges " + spoken.Count(found.Rows, "check that was given up", "checks that were given up") +
		a.narrowed() + ", because: " + a.Because
	plan.Until = bound(a.Until, found.Until, tx.now())
	a.Until = found.Until
	plan.Bounded = a
	return plan, nil
}

func (a Ack) run(ctx context.Context, s *Store, actor string) (Report, error) {
	n, err := admin.New(s.Client).AckAll(ctx, s.DB, a.filter(),
		admin.AckOptions{Because: a.Because, Actor: actor})
	if err == nil && n == 0 {
		err = s.requireJob(ctx, s.DB, a.JobExec)
	}
	return Acked{n}, err
}

// Acked reports on Ack.
type Acked struct {
	Acked int64 `json:"acked"` // the checks that were acknowledged
}

// String says how many were acknowledged.
func (r Acked) String() string {
	return spoken.Count(r.Acked, "check was", "checks were") + " acknowledged"
}
