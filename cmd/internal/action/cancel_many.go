package action

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// CancelMany ends the waiting checks that all given fields select as cancelled. At least one field
// must be given. Those of schedules stay, and without a job those of rules. It goes on when Do has returned.
type CancelMany struct {
	JobExec    string `json:"job_exec"`
	EntityName string `json:"entity_name"`
	EntityKey  string `json:"entity_key"` // * stands for any text
	GroupKey   string `json:"group_key"`
	// a JSON object; the payload has each of its fields with the same value. Null: any payload
	Payload json.RawMessage `json:"payload,omitempty"`
	Until   time.Time       `json:"until,omitzero"` // enqueued before
	Limit   int64           `json:"limit"`          // checks of the first slots; 0: all
}

var cancelManyForm = form(Form{
	Name: "cancel many", Summary: "End the waiting checks that a filter selects",
	Title: "Cancel many checks", Verb: "Cancel the checks",
	Lead: "The waiting checks that every field selects end as cancelled, in batches, and stay in history. " +
		"Those of schedules stay, and without a job those of rules.",
	Fields: []Field{
		{Name: "job", Label: "Job", Hint: "Empty: every job.", Names: Jobs},
		{Name: "name", Label: "Entity", Hint: "Empty: every kind.", Names: Entities},
		{Name: "key", Label: "Key", Hint: "* stands for any text, such as 42-*. Empty: every key."},
		{Name: "group", Label: "Group", Hint: "Empty: every group."},
		{
			Name: "payload", Label: "Payload",
			Hint: `A field, such as merchant=42, or several, such as {"merchant": 42, "country": "DE"}. Empty: every payload.`,
		},
		{Name: "until", Label: "Enqueued before", Hint: pastHint},
		{Name: "limit", Label: "At most", Hint: "Those of the first slots. Empty: all."},
	},
}, func(in *Input) CancelMany {
	return CancelMany{
		JobExec: in.Text("job"), EntityName: in.Text("name"), EntityKey: in.Text("key"),
		GroupKey: in.Text("group"),
		Payload:  in.payload("payload"), Until: in.past("until"), Limit: in.number("limit", 1<<40),
	}
})

// Target names the filter.
func (c CancelMany) Target() string { return "waiting checks" + c.narrowed() }

// narrowed says which waiting checks.
func (c CancelMany) narrowed() string {
	until := ""
	if !c.Until.IsZero() {
		until = c.Until.UTC().Format(time.RFC3339Nano)
	}
	return narrowed(" of job ", c.JobExec, " of entity ", c.EntityName, " with key ", c.EntityKey,
		" of group ", c.GroupKey, " with payload ", c.payload(), " enqueued before ", until)
}

func (c CancelMany) filter() admin.CancelFilter {
	return admin.CancelFilter{
		JobExec: c.JobExec, EntityName: c.EntityName, EntityKey: c.EntityKey,
		GroupKey: c.GroupKey, Payload: c.payload(), Until: c.Until,
	}
}

// payload returns the fields of the payload, or nothing for any payload.
func (c CancelMany) payload() string {
	if string(c.Payload) == "null" {
		return ""
	}
	return string(c.Payload)
}

func (c CancelMany) final() {}

func (c CancelMany) check(s *Store) error {
	switch {
	case c.JobExec == schedule.JobExec:
		return s.ofSchedule(c.EntityKey)
	case c.JobExec == "" && c.EntityName == schedule.EntityName:
		return s.ofEntitySchedule(c.EntityKey)
	case c.filter().IsZero():
		return &jobs.FieldError{Field: "job_exec", Message: "or another field must say which checks"}
	case c.Limit < 0:
		return &jobs.FieldError{Field: "limit", Message: "must be at least 0"}
	}
	return cmp.Or(CheckWords(c.JobExec, c.EntityName, c.EntityKey, c.GroupKey, c.payload()),
		CheckInstant("until", c.Until))
}

func (c CancelMany) plan(ctx context.Context, tx Tx) (plan Plan, err error) {
	found, err := admin.New(tx.Client).PreviewCancel(ctx, tx.Tx, c.filter())
	if err != nil {
		return plan, err
	}
	plan.Rows, plan.Nothing, plan.Fingerprint = found.Checks, found.Checks == 0, found.Digest
	plan.Warnings = staying(found.Stay)
	if plan.Nothing {
		plan.Text = "No check waits that it would cancel: " + c.Target()
		return plan, tx.requireJob(ctx, c.JobExec)
	}
	plan.Text = "Cancels " + spoken.Count(found.Checks, "waiting check", "waiting checks") + c.narrowed()
	if c.Limit > 0 && found.Checks > c.Limit {
		plan.Rows = c.Limit
		plan.Text = fmt.Sprintf("Cancels the %d earliest of %s%s", c.Limit,
			spoken.Count(found.Checks, "waiting check", "waiting checks"), c.narrowed())
	}
	plan.Warnings = append(append(plan.Warnings, goesOn), tx.again(ctx, c.JobExec)...)
	plan.Until = bound(c.Until, found.Until, tx.now())
	c.Until = found.Until
	plan.Bounded = c
	return plan, nil
}

func (c CancelMany) run(ctx context.Context, s *Store, actor string) (Report, error) {
	done, err := admin.New(s.Client).CancelAll(ctx, s.DB, c.filter(),
		admin.CancelOptions{Limit: c.Limit, Actor: actor})
	report := Cancelled{Cancelled: done.Cancelled, Left: done.Left}
	switch {
	case err != nil:
	case done == (admin.Cancelled{}):
		err = s.requireJob(ctx, s.DB, c.JobExec)
	default:
		report.again = s.again(ctx, c.JobExec)
	}
	return report, err
}
