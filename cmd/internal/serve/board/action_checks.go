package board

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/grid"
)

// wait counts the waiting checks of a key.
type wait struct {
	Rows  int64
	First time.Time // slot
	job   string    // of one of them
	Mark  int64     // a checksum of these checks and their slots
}

// waiting returns the waiting check of a key. For a key without a job it returns the checks of the
// entity that an operator may end.
func (p *planner) waiting(ctx context.Context, key jobs.Key) (w wait, err error) {
	if err := cmp.Or(checkText("entity_name", key.EntityName), checkText("entity_key", key.EntityKey),
		checkWords(key.JobExec, key.ItemKey)); err != nil {
		return w, err
	}
	return p.reader.waiting(ctx, key, sql.NullString{String: key.ItemKey, Valid: key.JobExec != ""}, key.JobExec == "")
}

// waiting returns the waiting checks of a key. A key without a job selects those of every job, with
// noSchedules except those of schedules. A null item selects every item.
func (r *reader) waiting(ctx context.Context, key jobs.Key, item sql.NullString, noSchedules bool) (w wait, err error) {
	job := sql.NullString{String: key.JobExec, Valid: key.JobExec != ""}
	err = pg.One(ctx, r, pg.BoardWaiting.In(r.schema),
		[]any{key.EntityName, key.EntityKey, job, item, noSchedules}, &w.Rows, &w.First, &w.job, &w.Mark)
	if err != nil {
		return w, fmt.Errorf("count what waits of %s %s: %w", key.EntityName, key.EntityKey, err)
	}
	w.First = w.First.UTC()
	return w, nil
}

// ofSchedule refuses to change the check of a schedule.
func (p *planner) ofSchedule(id string) error {
	return &RefusedError{view.OfSchedule(p.from.cfg.Self, id)}
}

// ofFailedSchedule refuses to put back failed checks of schedules.
func (p *planner) ofFailedSchedule(id string) error {
	return &RefusedError{view.OfFailedSchedule(p.from.cfg.Self, id)}
}

// Cancel ends the waiting checks of an entity as cancelled. A job and an item narrow it.
type Cancel struct{ jobs.Key }

// cancelForm is the form of Cancel.
var cancelForm = form(Form{
	Path: "cancel", Summary: "End the waiting checks of an entity",
	Title: "Cancel", Verb: "Cancel", Lead: "Waiting checks end as cancelled, and stay in history.",
	Fields: []Field{nameField, keyField, anyJob, itemField},
}, func(in *Input) Cancel { return Cancel{in.key()} })

func (c Cancel) name() string { return "cancel" }
func (c Cancel) target() string {
	if c.JobExec == "" {
		return c.EntityName + " " + c.EntityKey
	}
	return c.String()
}

func (c Cancel) plan(ctx context.Context, p *planner) (plan Plan, err error) {
	if c.ItemKey != "" && c.JobExec == "" {
		return plan, &jobs.FieldError{Field: "item_key", Message: "needs job_exec"}
	}
	if c.JobExec == schedule.JobExec {
		return plan, p.ofSchedule(c.EntityKey)
	}
	w, err := p.waiting(ctx, c.Key)
	if err != nil {
		return plan, err
	}
	if w.Rows == 0 && c.JobExec == "" && c.EntityName == schedule.EntityName {
		return plan, p.ofSchedule(c.EntityKey)
	}
	plan.Rows, plan.Nothing = w.Rows, w.Rows == 0
	plan.Text = fmt.Sprintf("It ends %s of %s as cancelled",
		spoken.Count(plan.Rows, "waiting check", "waiting checks"), c.target())
	if plan.Rows == 1 {
		plan.Text += ": " + w.job + " in slot " + clock(w.First)
	}
	if w.Rows > 0 && !w.First.After(p.now()) {
		plan.Warnings = append(plan.Warnings,
			"A check whose slot has begun may be running. It goes on running, but its result is not recorded.")
	}
	plan.fingerprint = w
	return plan, nil
}

func (c Cancel) do(ctx context.Context, tx *sqlx.Tx, t *tools) (string, error) {
	var n int64
	var err error
	if c.JobExec == "" {
		n, err = t.client.CancelEntity(ctx, tx, c.EntityName, c.EntityKey)
	} else {
		var found bool
		found, err = t.client.Cancel(ctx, tx, c.Key)
		if found {
			n = 1
		}
	}
	return spoken.Count(n, "check was", "checks were") + " cancelled", err
}

// CancelMany ends the waiting checks that all given fields select as cancelled. At least one field
// must be given. It goes on when Do has returned.
type CancelMany struct {
	JobExec    string `json:"job_exec"`
	EntityName string `json:"entity_name"`
	EntityKey  string `json:"entity_key"` // * stands for any text
	GroupKey   string `json:"group_key"`
	// a JSON object; the payload has each of its fields with the same value
	Payload json.RawMessage `json:"payload,omitempty"`
	Until   time.Time       `json:"until,omitzero"` // enqueued before
	Limit   int64           `json:"limit"`          // checks of the first slots; 0: all
}

// cancelManyForm is the form of CancelMany.
var cancelManyForm = form(Form{
	Path: "cancel-many", Summary: "End the waiting checks that a filter selects",
	Title: "Cancel many checks", Verb: "Cancel",
	Lead: "The waiting checks that every field selects end as cancelled, in batches, and stay in history. " +
		"Those of schedules stay.",
	Fields: []Field{
		{Name: "job", Label: "Job", Hint: "Empty: every job."},
		{Name: "name", Label: "Entity", Hint: "Empty: every kind."},
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

func (c CancelMany) name() string { return "cancel many" }
func (c CancelMany) target() string {
	text := "waiting checks"
	if c.JobExec != "" {
		text += " of job " + c.JobExec
	}
	if c.EntityName != "" {
		text += " of entity " + c.EntityName
	}
	if c.EntityKey != "" {
		text += " with key " + c.EntityKey
	}
	if c.GroupKey != "" {
		text += " of group " + c.GroupKey
	}
	if len(c.Payload) > 0 {
		text += " with payload " + string(c.Payload)
	}
	if !c.Until.IsZero() {
		text += " enqueued before " + clock(c.Until)
	}
	return text
}

func (c CancelMany) filter() admin.CancelFilter {
	return admin.CancelFilter{
		JobExec: c.JobExec, EntityName: c.EntityName, EntityKey: c.EntityKey,
		GroupKey: c.GroupKey, Payload: string(c.Payload), Until: c.Until,
	}
}

func (c CancelMany) plan(ctx context.Context, p *planner) (plan Plan, err error) {
	if c.JobExec == schedule.JobExec || c.JobExec == "" && c.EntityName == schedule.EntityName {
		return plan, p.ofSchedule(c.EntityKey)
	}
	if c.filter().IsZero() {
		return plan, &jobs.FieldError{Field: "job_exec", Message: "or another field must say which checks"}
	}
	if c.Limit < 0 {
		return plan, &jobs.FieldError{Field: "limit", Message: "must be at least 0"}
	}
	if err := cmp.Or(checkWords(c.JobExec, c.EntityName, c.EntityKey, c.GroupKey, string(c.Payload)),
		checkInstant("until", c.Until)); err != nil {
		return plan, err
	}
	found, err := admin.New(p.client).CountCancel(ctx, p, c.filter())
	if err != nil {
		return plan, err
	}
	plan.Rows, plan.Nothing, plan.fingerprint = found.Checks, found.Checks == 0, found.Digest
	plan.Text = fmt.Sprintf("It ends %s as cancelled: %s", spoken.Count(found.Checks, "check", "checks"), c.target())
	if c.Limit > 0 && found.Checks > c.Limit {
		plan.Rows = c.Limit
		plan.Text = fmt.Sprintf("It cancels the %d earliest %s", c.Limit, c.target())
	}
	if !plan.Nothing {
		plan.Warnings = []string{
			"A check whose slot has begun may be running. It goes on running, but its result is not recorded.",
		}
	}
	c.Until = found.Until
	plan.bounded = c
	return plan, nil
}

func (c CancelMany) run(ctx context.Context, s *source, t *tools, who web.Who) (string, error) {
	done, err := admin.New(t.client).CancelAll(ctx, s.cfg.DB, c.filter(),
		admin.CancelOptions{Limit: c.Limit, Actor: who.String()})
	text := spoken.Count(done.Cancelled, "check was", "checks were") + " cancelled"
	switch {
	case err != nil:
		text += ": " + err.Error()
	case done.Left > 0:
		text += fmt.Sprintf(", and %s because another transaction has locked or moved them",
			spoken.Count(done.Left, "was left", "were left"))
	}
	return text, err
}

// Reschedule moves a waiting check to the first slot at or after At.
type Reschedule struct {
	jobs.Key
	At time.Time `json:"at"`
}

// rescheduleForm is the form of Reschedule.
var rescheduleForm = form(Form{
	Path: "reschedule", Summary: "Move a waiting check to another slot",
	Title: "Move a check", Verb: "Move",
	Lead: "The check waits for the first slot at or after the new time.",
	Fields: []Field{
		jobField, nameField, keyField, itemField,
		{Name: "at", Label: "New time", Hint: aheadHint, Required: true},
	},
}, func(in *Input) Reschedule { return Reschedule{in.key(), in.ahead("at")} })

func (m Reschedule) name() string   { return "reschedule" }
func (m Reschedule) target() string { return m.String() }

func (m Reschedule) plan(ctx context.Context, p *planner) (plan Plan, err error) {
	if m.JobExec == "" {
		return plan, &jobs.FieldError{Field: "job_exec", Message: "must be given"}
	}
	if m.JobExec == schedule.JobExec {
		return plan, p.ofSchedule(m.EntityKey)
	}
	if m.At.IsZero() {
		return plan, &jobs.FieldError{Field: "at", Message: "must be an instant such as 2006-01-02T15:04:05Z"}
	}
	if err := cmp.Or(checkInstant("at", m.At), p.client.ValidateDue(m.At)); err != nil {
		return plan, err
	}
	w, err := p.waiting(ctx, m.Key)
	if err != nil {
		return plan, err
	}
	if w.Rows == 0 {
		return plan, &RefusedError{"no such check waits: it has ended, or was never requested"}
	}
	to := grid.Later(p.grid().Ceil(m.At), p.grid().Next(p.now()))
	plan.Rows, plan.Nothing = 1, to.Equal(w.First)
	plan.Text = fmt.Sprintf("It moves the check %s from slot %s to slot %s", m.target(), clock(w.First), clock(to))
	if m.At.Before(p.now()) {
		plan.Warnings = append(plan.Warnings, "The instant has passed, so the check moves to the next slot.")
	}
	plan.fingerprint = []any{w, to}
	return plan, nil
}

func (m Reschedule) do(ctx context.Context, tx *sqlx.Tx, t *tools) (string, error) {
	slot, found, err := t.client.Reschedule(ctx, tx, m.Key, m.At)
	if err == nil && !found {
		err = &RefusedError{"the check no longer waits"}
	}
	return "it waits for slot " + clock(slot), err
}

const (
	defaultRetry = 1000
	maxRetry     = 100_000
)

// Retry puts failed checks back. Empty fields do not narrow.
type Retry struct {
	ID         int64     `json:"id"` // of one row in history
	JobExec    string    `json:"job_exec"`
	EntityName string    `json:"entity_name"`
	EntityKey  string    `json:"entity_key"`
	Since      time.Time `json:"since,omitzero"` // failed at or after
	Limit      int       `json:"limit"`          // default 1000, at most 100,000; the oldest first
	At         time.Time `json:"at,omitzero"`    // zero: the next slot
}

// retryForm is the form of Retry.
var retryForm = form(Form{
	Path: "retry", Summary: "Retry failed checks",
	Title: "Retry failed checks", Verb: "Retry",
	Lead: "Checks that were given up come back from history with a clean error count. " +
		"A key that waits already stays unchanged.",
	Fields: []Field{
		{Name: "job", Label: "Job", Hint: "Empty: every job."},
		{Name: "name", Label: "Entity", Hint: "Empty: every kind."},
		{Name: "key", Label: "Key", Hint: "Empty: every key."},
		{Name: "id", Label: "Row", Hint: "The number of one row in history. Empty: every row."},
		{Name: "since", Label: "Given up since", Hint: pastHint},
		{
			Name: "limit", Label: "At most",
			Hint: "The oldest first, up to 100,000. Empty: 1,000.", Default: "1000",
		},
		{Name: "at", Label: "Into the slot of", Hint: aheadHint + " Empty: the next slot."},
	},
}, func(in *Input) Retry {
	return Retry{
		JobExec: in.Text("job"), EntityName: in.Text("name"), EntityKey: in.Text("key"),
		ID: in.number("id", math.MaxInt64), Since: in.past("since"), Limit: int(in.number("limit", 100_000)),
		At: in.ahead("at"),
	}
})

func (a Retry) name() string   { return "retry" }
func (a Retry) target() string { return "failed checks" + a.narrowed() }

// narrowed says which failed checks.
func (a Retry) narrowed() string {
	text := ""
	if a.JobExec != "" {
		text += " of job " + a.JobExec
	}
	if a.EntityName != "" || a.EntityKey != "" {
		text += " of entity " + a.EntityName + " " + a.EntityKey
	}
	if a.ID != 0 {
		text += fmt.Sprintf(" with the number %d", a.ID)
	}
	if !a.Since.IsZero() {
		text += " since " + clock(a.Since)
	}
	return text
}

func (a Retry) filter() admin.RetryFilter {
	limit := a.Limit
	if limit == 0 {
		limit = defaultRetry
	}
	return admin.RetryFilter{
		JobExec: a.JobExec, EntityName: a.EntityName, EntityKey: a.EntityKey,
		ID: a.ID, Since: a.Since, Limit: limit,
		All: true, // the operator sees how many these are before they are put back
	}
}

func (a Retry) plan(ctx context.Context, p *planner) (plan Plan, err error) {
	f := a.filter()
	if a.JobExec == schedule.JobExec {
		return plan, p.ofFailedSchedule(a.EntityKey)
	}
	if f.Limit < 1 || f.Limit > maxRetry {
		return plan, &jobs.FieldError{Field: "limit", Message: fmt.Sprintf("must be 1 to %d", maxRetry)}
	}
	if err := cmp.Or(checkWords(a.JobExec, a.EntityName, a.EntityKey), checkInstant("since", a.Since),
		checkInstant("at", a.At)); err != nil {
		return plan, err
	}
	if !a.At.IsZero() {
		if err := p.client.ValidateDue(a.At); err != nil {
			return plan, err
		}
	}
	found, err := admin.New(p.client).PreviewRetry(ctx, p, f)
	if err != nil {
		return plan, err
	}
	if found.Checks == 0 && a.JobExec == "" && a.EntityName == schedule.EntityName {
		return plan, p.ofFailedSchedule(a.EntityKey)
	}
	plan.Rows, plan.Nothing = found.Checks-found.Waiting, found.Checks == found.Waiting
	to := grid.Later(p.grid().Ceil(a.At), p.grid().Next(p.now()))
	plan.Text = fmt.Sprintf("It puts %s%s back into slot %s, with a clean error count",
		spoken.Count(plan.Rows, "failed check", "failed checks"), a.narrowed(), clock(to))
	if found.Waiting > 0 {
		plan.Warnings = append(plan.Warnings, spoken.Count(found.Waiting, "failed check stays", "failed checks stay")+
			" in history, since the key waits already.")
	}
	if found.Checks == int64(f.Limit) {
		plan.Warnings = append(plan.Warnings,
			fmt.Sprintf("These are the oldest %d, which is the limit: there may be more.", f.Limit))
	}
	plan.fingerprint = found
	return plan, nil
}

func (a Retry) do(ctx context.Context, tx *sqlx.Tx, t *tools) (string, error) {
	retried, waiting, err := admin.New(t.client).Retry(ctx, tx, a.filter(), a.At)
	text := spoken.Count(retried, "check was", "checks were") + " put back"
	if waiting > 0 {
		text += fmt.Sprintf(", and %d stayed in history, since their keys wait already", waiting)
	}
	return text, err
}
