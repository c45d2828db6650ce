package action

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/grid"
)

const (
	// DefaultRetry is how many checks Retry puts back at most by default.
	DefaultRetry = 1000
	maxRetry     = 100_000
)

// FailedChecks selects checks that were given up.
type FailedChecks struct {
	ID         int64  `json:"id"` // of one row in history
	JobExec    string `json:"job_exec"`
	EntityName string `json:"entity_name"`
	EntityKey  string `json:"entity_key"`
	// null or left out: every item; empty: only checks without an item
	ItemKey *string   `json:"item_key,omitempty"`
	Since   time.Time `json:"since,omitzero"` // given up at or after
}

// failedFields are the fields of a form.
var failedFields = []Field{
	{Name: "job", Label: "Job", Hint: "Empty: every job.", Names: Jobs},
	{Name: "name", Label: "Entity", Hint: "Empty: every kind.", Names: Entities},
	{Name: "key", Label: "Key", Hint: "Empty: every key."},
	{Name: "id", Label: "Row", Hint: "The number of one row in history. Empty: every row."},
	{Name: "since", Label: "Given up since", Hint: pastHint},
}

// failed reads the fields of a form.
func (in *Input) failed() FailedChecks {
	return FailedChecks{
		JobExec: in.Text("job"), EntityName: in.Text("name"), EntityKey: in.Text("key"),
		ID: in.number("id", math.MaxInt64), Since: in.past("since"),
	}
}

// Target names the filter.
func (f FailedChecks) Target() string { return "failed checks" + f.narrowed() }

// narrowed says which failed checks.
func (f FailedChecks) narrowed() string {
	item, id, since := "", "", ""
	if f.ItemKey != nil {
		item = cmp.Or(narrowed(" with item ", *f.ItemKey), " without an item")
	}
	if f.ID != 0 {
		id = fmt.Sprint(f.ID)
	}
	if !f.Since.IsZero() {
		since = clock(f.Since)
	}
	return narrowed(" of job ", f.JobExec, " of entity ", f.EntityName, " with key ", f.EntityKey) + item +
		narrowed(" with the number ", id, " since ", since)
}

func (f FailedChecks) check() error {
	item := ""
	if f.ItemKey != nil {
		item = *f.ItemKey
	}
	return cmp.Or(CheckWords(f.JobExec, f.EntityName, f.EntityKey, item), CheckInstant("since", f.Since))
}

// Retry puts failed checks back. Empty fields do not narrow. An acknowledged check stays, unless its key or its id is
// given.
type Retry struct {
	FailedChecks
	Limit int       `json:"limit"`       // default 1000, at most 100,000; the oldest first
	At    time.Time `json:"at,omitzero"` // zero: the next slot
}

var retryForm = form(Form{
	Name: "retry", Summary: "Retry failed checks",
	Title: "Retry failed checks", Verb: "Retry",
	Lead: "Checks that were given up come back from history with a clean error count. " +
		"If a key already waits, nothing changes for it. A check that was acknowledged comes back only by its key or row.",
	Fields: append(slices.Clip(failedFields),
		Field{Name: "limit", Label: "At most", Hint: "The oldest first, up to 100,000. Empty: 1,000.", Default: "1000"},
		Field{Name: "at", Label: "Into the slot of", Hint: aheadHint + " Empty: the next slot."}),
}, func(in *Input) Retry {
	return Retry{FailedChecks: in.failed(), Limit: int(in.number("limit", maxRetry)), At: in.ahead("at")}
})

func (a Retry) filter() admin.RetryFilter {
	return admin.RetryFilter{
		JobExec: a.JobExec, EntityName: a.EntityName, EntityKey: a.EntityKey, ItemKey: a.ItemKey,
		ID: a.ID, Since: a.Since, Limit: cmp.Or(a.Limit, DefaultRetry), All: true,
	}
}

func (a Retry) check(s *Store) error {
	if a.JobExec == schedule.JobExec {
		return s.ofFailedSchedule(a.EntityKey)
	}
	if limit := a.filter().Limit; limit < 1 || limit > maxRetry {
		return &jobs.FieldError{Field: "limit", Message: fmt.Sprintf("must be 1 to %d", maxRetry)}
	}
	if err := cmp.Or(a.FailedChecks.check(), CheckInstant("at", a.At)); err != nil || a.At.IsZero() {
		return err
	}
	return s.Client.ValidateDue(reserved.Caller{}, a.At)
}

func (a Retry) plan(ctx context.Context, tx Tx) (plan Plan, err error) {
	found, err := admin.New(tx.Client).PreviewRetry(ctx, tx.Tx, a.filter())
	if err == nil && found.Checks == 0 {
		err = a.none(ctx, tx)
	}
	if err != nil {
		return plan, err
	}
	plan.Rows, plan.Nothing, plan.Fingerprint = found.Checks-found.Waiting, found.Checks == found.Waiting, found
	plan.Text = fmt.Sprintf("Puts %s%s back into slot %s, with a clean error count",
		spoken.Count(plan.Rows, "failed check", "failed checks"), a.narrowed(), clock(a.target(tx)))
	if found.Waiting > 0 {
		plan.Warnings = append(plan.Warnings, spoken.Count(found.Waiting, "failed check stays", "failed checks stay")+
			" in history, since the key waits already.")
	}
	if limit := a.filter().Limit; found.Checks == int64(limit) {
		plan.Warnings = append(plan.Warnings,
			fmt.Sprintf("These are the oldest %d, which is the limit: there may be more.", limit))
	}
	return plan, nil
}

// target returns the slot into which the checks are put.
func (a Retry) target(tx Tx) time.Time {
	return grid.Later(tx.grid().Ceil(a.At), tx.grid().Next(tx.now()))
}

// none returns the error of a filter that selects no failed check, or nil.
func (a Retry) none(ctx context.Context, tx Tx) error {
	if a.JobExec == "" && a.EntityName == schedule.EntityName {
		return tx.ofFailedSchedule(a.EntityKey)
	}
	return tx.requireJob(ctx, a.JobExec)
}

func (a Retry) do(ctx context.Context, tx Tx) (Report, error) {
	retried, waiting, err := admin.New(tx.Client).Retry(ctx, tx.Tx, a.filter(), a.At)
	if err == nil && retried+waiting == 0 {
		err = a.none(ctx, tx)
	}
	full := retried+waiting == int64(a.filter().Limit)
	return Retried{retried, waiting, full}, err
}

// Retried reports on Retry.
type Retried struct {
	Retried int64 `json:"retried"` // checks that wait again
	Waiting int64 `json:"waiting"` // they stayed in history, because their keys wait already
	full    bool  // as many as the limit allows
}

// String says how many were put back.
func (r Retried) String() string {
	text := spoken.Count(r.Retried, "check was", "checks were") + " put back"
	switch {
	case r.Waiting > 0:
		text += fmt.Sprintf(", and %d stayed in history, since %s already", r.Waiting,
			spoken.Noun(r.Waiting, "its key waits", "their keys wait"))
	case r.Retried == 0:
		text = "nothing was put back: there is no such failed check"
	}
	switch {
	case r.full && r.Waiting > 0: // these come first each time
		text += ". That is the limit, and there may be more: repeat it with a larger one"
	case r.full:
		text += ". That is the limit, and there may be more: repeat it until nothing is put back"
	}
	return text
}
