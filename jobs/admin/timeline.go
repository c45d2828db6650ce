package admin

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/periodic"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/tx"
	"github.com/prescient-go/prescient/jobs"
)

// TimelineEntry is one event in the life of a check. Instants are in UTC.
type TimelineEntry struct {
	ID        int64  `json:"id"` // of the row: a key gets a new ID each time it is enqueued while it does not wait
	JobExec   string `json:"job_exec"`
	ItemKey   string `json:"item_key"`
	Anonymous bool   `json:"anonymous"`

	// What is one of these, or an Outcome:
	//
	//   - "enqueued"; "waiting"; "moved" (from another store); "arriving" (on its way here from
	//     another store)
	//   - "next" (a check returned a next time), "retry" (a check failed), "deferred" (by catch-up,
	//     unchecked)
	//   - "rescheduled", "pushed_back", "width" (the grid was changed), "retried" (put back from
	//     history)
	//   - "renamed" (the row of a rule's table got another key)
	//   - "recorded" (an enqueue came when its slot had begun; see OnConflict), "honoured" (such a
	//     request made this row)
	//   - "acked" (an operator acknowledged that the row failed; see Ack)
	What string    `json:"what"`
	At   time.Time `json:"at,omitzero"`   // zero: it waits, or began before times were kept
	Slot time.Time `json:"slot,omitzero"` // the slot of the row; for enqueued, the first
	// For enqueued and recorded; At, if it was requested for as soon as possible. Zero: not known, because a rule may have
	// written another instant since.
	RequestedFor time.Time `json:"requested_for,omitzero"`
	// For enqueued: Request.Within.
	Within time.Duration `json:"within_ns"`

	// The role, application_name and actor (see SetActor) that did it. Empty for a run.
	ByRole string `json:"by_role"`
	App    string `json:"app"`
	Actor  string `json:"actor"`

	// For a check: its runner, lateness, run time and error. If it returned a next time, only the
	// first four digits of its times are kept, and Runner is empty once the ledger has lost the
	// slot.
	Ran      bool          `json:"checked"`
	Runner   string        `json:"runner"`
	Lateness time.Duration `json:"lateness_ns"`
	Duration time.Duration `json:"duration_ns"`
	Error    string        `json:"error"` // for acked, the reason

	// Found says what the last check of a rule found in its table: done at an instant, done, gone, outside
	// or open, or that the rule is removed. Empty for all other entries, and where there is no rule of that name now.
	Found string `json:"found"`
	// StepsLeftOut lists the steps of a rule that had passed when the row came to it, and did not fire. Only the last
	// entry of a row has them.
	StepsLeftOut []string `json:"steps_left_out"`
	// PausedSince is since when the clock of a waiting row of a rule stood still at its last check, in UTC.
	// Zero: it did not.
	PausedSince time.Time `json:"paused_since,omitzero"`
	// Used says how much of the delay of each step had passed then, such as "ticket.late 3h of working time".
	Used []string `json:"used"`
	// Fired lists the steps of a rule that this check has fired. A step whose check has left the timeline
	// is with the entry before it.
	Fired []Firing `json:"fired"`

	// Instants lists the instants (UTC) that a periodic function was called for, if a check of its row has ended the row:
	// all those of the row, or the latest 1,000.
	Instants []time.Time `json:"instants"`

	// LeftOut tells that the row ended with a request, which was dropped for its Request.UnlessEndedWithin. The key has
	// ended as done in that time, perhaps with this end.
	LeftOut bool `json:"left_out"`

	// To is the slot that a rescheduled, pushed_back, deferred or width event moved the row to, in UTC. Zero: unknown.
	To time.Time `json:"to,omitzero"`
	// For moved: the names of the stores, given by the operator who moved the row.
	MovedFrom string `json:"moved_from"`
	MovedTo   string `json:"moved_to"`
	// KeyBefore is the key that a renamed row had before. KeyAfter is set for a row that ended as cancelled because its
	// row got another key: its timeline goes on there.
	KeyBefore string `json:"key_before"`
	KeyAfter  string `json:"key_after"`

	// The ledger's record of the slot: why it was opened ("run", "catch_up"), when, and when it was done. "by_hand": an
	// operator had this check run. Empty: it was not opened, or this entry has no slot.
	Run        string    `json:"run"`
	OpenedAt   time.Time `json:"opened_at,omitzero"`
	FinishedAt time.Time `json:"finished_at,omitzero"`

	// Hindrance says what blocks a waiting row. Empty: nothing.
	//
	//   - "paused"; "unserved": no run of the last 7 days had its job
	//   - "missed": no run has opened its slot; "open": its slot is being run, or was left open
	//   - "straggler": it was committed after its slot was closed
	Hindrance string `json:"hindrance"`

	// OfRule reports whether the job is that of a rule.
	OfRule bool `json:"of_rule"`
}

// Firing says that a step of a rule has fired. Of a step that repeats, it is the last time.
type Firing struct {
	Step   string `json:"step"`   // its name
	Number int    `json:"number"` // of the times at which the step is due, from 1
	// LeftOut is how many of them before this one did not fire: of those that are due together, such as after an
	// outage, the last one fires.
	LeftOut int       `json:"left_out"`
	Since   time.Time `json:"since"`    // the instant from which its delay counts, in UTC
	FirstAt time.Time `json:"first_at"` // when it fired first since then, in UTC
	At      time.Time `json:"at"`       // when it fired, in UTC
}

// MaxRows bounds the rows of one entity that Timeline and Show return: so many
// waiting rows, and so many ended rows.
const MaxRows = 1000

// Timeline returns the history of the checks of an entity, row by row, in order. The newest 20
// entries between the beginning and the end of a row are kept. It returns the newest MaxRows rows.
// An empty JobExec or ItemKey of the key selects every job or item. It finds anonymous rows only
// once they have ended.
func (c *Client) Timeline(ctx context.Context, db jobs.DB, key jobs.Key) ([]TimelineEntry, error) {
	var events []TimelineEntry
	err := tx.Read(ctx, db, func(db tx.DB) (err error) {
		if events, err = c.entries(ctx, db, key); err == nil && len(events) > 0 {
			err = c.addFired(ctx, db, key.EntityKey, events)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the timeline of %s %s: %w", key.EntityName, key.EntityKey, err)
	}
	setTargets(events)
	return events, nil
}

// Kinds returns the first 20 names of entities that have a check with a key, waiting or in history, in
// order. They tell a reader who does not find an entity how its name is written.
func (c *Client) Kinds(ctx context.Context, db jobs.DB, entityKey string) ([]string, error) {
	names, err := rows(ctx, c, db, pg.EntityKinds, []any{entityKey},
		func(row *sql.Rows, name *string) error { return row.Scan(name) })
	if err != nil {
		return nil, fmt.Errorf("find the entities with the key %s: %w", entityKey, err)
	}
	return names, nil
}

// FormerKeys returns the first 20 keys that the row of a rule's table had when steps fired for it, if it has another
// key now. Checks that had ended before stay under the key of then.
func (c *Client) FormerKeys(ctx context.Context, db jobs.DB, entityName, entityKey string) ([]string, error) {
	keys, err := rows(ctx, c, db, pg.RuleFormerKeys, []any{entityName, entityKey},
		func(row *sql.Rows, key *string) error { return row.Scan(key) })
	if err != nil {
		return nil, fmt.Errorf("find the keys that %s %s had before: %w", entityName, entityKey, err)
	}
	return keys, nil
}

// EntityNames returns at most limit names of entities that have a check, waiting or in history, and begin
// with prefix, in order.
func (c *Client) EntityNames(ctx context.Context, db jobs.DB, prefix string, limit int) ([]string, error) {
	names, err := rows(ctx, c, db, pg.EntityNames, []any{prefix, limit},
		func(row *sql.Rows, name *string) error { return row.Scan(name) })
	if err != nil {
		return nil, fmt.Errorf("list the names of entities: %w", err)
	}
	return names, nil
}

// entries returns the entries of a timeline, as far as a single statement reads them.
func (c *Client) entries(ctx context.Context, db jobs.DB, key jobs.Key) ([]TimelineEntry, error) {
	args := []any{key.EntityName, key.EntityKey, nullable(key.JobExec), nullable(key.ItemKey), MaxRows}
	var asked []time.Time // by entry
	events, err := rows(ctx, c, db, pg.Why, args, func(row *sql.Rows, e *TimelineEntry) error {
		var at, target, opened, closed, request sql.NullTime
		var lateness, duration, within *int64
		var leftOut, called, used []byte
		var paused string
		err := row.Scan(&e.ID, &e.JobExec, &e.ItemKey, &e.Anonymous, &at, &e.What, &e.Slot, &target, &e.ByRole,
			&e.App, &e.Actor, &e.Runner, &lateness, &duration, &e.Error, &e.Run, &opened, &closed, &e.Hindrance, &within,
			&e.MovedFrom, &e.MovedTo, &e.Found, &e.OfRule, &leftOut, &called, &paused, &used, &request)
		if err == nil {
			err = errors.Join(json.Unmarshal(leftOut, &e.StepsLeftOut), json.Unmarshal(used, &e.Used))
		}
		e.At, e.Slot, e.RequestedFor = at.Time.UTC(), e.Slot.UTC(), target.Time.UTC()
		e.PausedSince, _ = time.Parse(time.RFC3339Nano, paused) // an application may have written something else
		e.OpenedAt, e.FinishedAt = opened.Time.UTC(), closed.Time.UTC()
		e.Ran, e.Lateness, e.Duration = lateness != nil, micros(lateness), micros(duration)
		e.Within = micros(within)
		e.Instants = periodic.Instants(called)
		if e.What != "moved" {
			e.KeyBefore, e.KeyAfter, e.MovedFrom, e.MovedTo = e.MovedFrom, e.MovedTo, "", ""
		}
		asked = append(asked, request.Time.UTC())
		return err
	})
	setLeftOut(events, asked)
	return events, err
}

// addFired adds the steps that rules have fired for a key to the checks that fired them.
func (c *Client) addFired(ctx context.Context, db jobs.DB, entityKey string, events []TimelineEntry) error {
	ofJob := map[string][]*TimelineEntry{}
	for i := range events {
		ofJob[events[i].JobExec] = append(ofJob[events[i].JobExec], &events[i])
	}
	type step struct {
		Firing
		job string
	}
	names := pq.StringArray(slices.Collect(maps.Keys(ofJob)))
	fired, err := rows(ctx, c, db, pg.RuleFiredKey, []any{names, entityKey}, func(row *sql.Rows, s *step) error {
		err := row.Scan(&s.job, &s.Step, &s.Number, &s.LeftOut, &s.Since, &s.FirstAt, &s.At)
		s.Since, s.FirstAt, s.At = s.Since.UTC(), s.FirstAt.UTC(), s.At.UTC()
		return err
	})
	for _, s := range fired {
		entries := ofJob[s.job]
		of := entries[0]
		for _, e := range entries {
			// A step that moves its own row makes entries while its check runs.
			if begun := e.begun(); !begun.IsZero() && !begun.After(s.At) && (e.ranAt(s.At) || !of.ranAt(s.At)) {
				of = e
			}
		}
		of.Fired = append(of.Fired, s.Firing)
	}
	return err
}

// begun returns when the check of an entry began, or shortly before, see Runner. For an entry without a
// check it returns At.
func (e TimelineEntry) begun() time.Time {
	if e.Ran {
		return e.Slot.Add(e.Lateness)
	}
	return e.At
}

// ranAt reports whether the check of an entry ran at an instant. It is not exact, see Runner.
func (e TimelineEntry) ranAt(at time.Time) bool {
	const rounded, clocks = 1000, time.Second
	ended := e.begun().Add(e.Duration + (e.Lateness+e.Duration)/rounded + clocks)
	return e.Ran && !at.Before(e.begun()) && !at.After(ended)
}

// setLeftOut finds the ends whose row had a request with a condition, which made no row. asked has the instant of that
// request; zero: the row had none. A row that comes of a request has its instant as that of the enqueue. The entry
// "honoured" is no proof, because a journal loses its oldest entries. Nor is a row that is not here, if the key has
// never ended as done: it may have moved to another store.
func setLeftOut(events []TimelineEntry, asked []time.Time) {
	type key struct{ job, item string }
	type request struct {
		key
		at time.Time
	}
	made, done := map[request]bool{}, map[key]time.Time{} // done: the first end as done
	for _, e := range events {
		k := key{e.JobExec, e.ItemKey}
		switch first := done[k]; {
		case e.What == "enqueued":
			made[request{k, e.At}] = true
		case e.What == string(jobs.OutcomeDone) && (first.IsZero() || e.At.Before(first)):
			done[k] = e.At
		}
	}
	for i := range events {
		e := &events[i]
		k := key{e.JobExec, e.ItemKey}
		first, ever := done[k]
		e.LeftOut = !asked[i].IsZero() && !made[request{k, asked[i]}] && ever && !first.After(e.At)
	}
}

// setTargets sets the target slots of moves: the next entry of a row has the slot.
func setTargets(events []TimelineEntry) {
	for i := range events[:max(len(events)-1, 0)] {
		e, next := &events[i], events[i+1]
		switch e.What {
		case "rescheduled", "pushed_back", "deferred", "width":
			if next.ID == e.ID {
				e.To = next.Slot
			}
		}
	}
}
