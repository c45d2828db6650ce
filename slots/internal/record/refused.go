package record

import (
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/claim"
	"github.com/prescient-go/prescient/slots/internal/db"
	"github.com/prescient-go/prescient/slots/internal/row"
)

// notOfRows lists the classes of errors that would meet any row: because of the schema, the rights of
// the role, or the state of the server. PS is the class of the engine's own errors.
var notOfRows = []pqerror.Class{
	"PS", pqerror.ClassFeatureNotSupported, pqerror.ClassInvalidTransactionState, pqerror.ClassTransactionRollback,
	pqerror.ClassInvalidAuthorizationSpecification, pqerror.ClassSyntaxErrorOrAccessRuleViolation,
	pqerror.ClassObjectNotInPrerequisiteState, pqerror.ClassOperatorIntervention, pqerror.ClassSystemError,
}

// Refuses reports whether the database refuses a statement because of its rows: for example, because
// a trigger of the application raises an error. It returns false on Citus, which has no triggers
// there, and whose workers report errors of any class.
func (r *Recorder) Refuses(err error) bool {
	state := pg.State(err)
	return state != "" && !r.Session.Server.Citus && !db.Retryable(err) && !slices.Contains(notOfRows, state.Class())
}

// recordError records a refusal as an error of the row, and returns the outcome if it is left. If the
// database refuses the error too, the row is left in its slot.
func (r *Recorder) recordError(c *claim.Claim, o row.Outcome, cause error) ([]row.Outcome, error) {
	r.Session.Server.Logger.DebugContext(r.Session.Work, "a row is refused", "id", o.ID, "error", cause)
	job, found, err := r.attempts(o)
	switch {
	case err != nil:
		return []row.Outcome{o}, err
	case !found: // it was cancelled or moved meanwhile
		r.Count(row.Tally{Yielded: 1}, nil)
		return nil, nil
	}
	def := r.Session.Jobs.Of(o.Number)
	job.JobExec = def.Name
	cause = fmt.Errorf("%s: %w", job.Key(), cause)
	moment := r.Moment()
	o.Verdict = new(guard.After(def, moment, &job, nil, cause))
	guard.Follow(def, moment, &job, o.Verdict)
	locked, err := r.lockAndRecord(c, []row.Outcome{o}, db.LockTimeout)
	if r.Refuses(err) {
		c.Refused++
		c.Postpone(o.ID)
		r.CountRefused(fmt.Errorf("%w; nor can this error: %w", cause, err))
		return nil, nil
	}
	return locked, err
}

// attempts reads the key of a row, and how many checks and errors in a row it has had. found is false if it is not in
// the slot. If the function was called for the row, attempts also reads what the row that follows depends on.
func (r *Recorder) attempts(o row.Outcome) (job jobs.FutureJob, found bool, err error) {
	job.Slot = r.Session.Slot
	if o.Ran {
		job.Lateness = o.Lateness
	}
	args := []any{r.Session.Slot, o.Number, o.ID, o.Ran}
	err = r.Session.Server.Ask(r.Session.Work, r.Session.Work, pg.RowAttempts, args, func(rows *sql.Rows) error {
		var item sql.NullString
		found = true
		err := rows.Scan(&job.EntityName, &job.EntityKey, &item, &job.CheckCount, &job.ErrorCount, (*[]byte)(&job.Payload))
		job.ItemKey, job.Anonymous = item.String, !item.Valid
		return err
	})
	return job, found, err
}

// RecordUnreadable records an error for each row of a claim that the server cannot read, and returns those that other
// transactions have locked. cause is the error of reading all rows. RecordUnreadable returns it if the server can read
// each row by itself.
func (r *Recorder) RecordUnreadable(c *claim.Claim, cause error) (locked []row.Outcome, err error) {
	found, problems := map[int64]row.Outcome{}, map[int64]string{}
	args := []any{r.Session.Slot, c.Jobs, c.First, c.Last}
	err = r.Session.Server.Ask(c.Ctx, r.Session.Work, pg.PageUnreadable, args, func(rows *sql.Rows) error {
		var o row.Outcome
		var problem string
		err := rows.Scan(&o.ID, &o.Number, &problem)
		found[o.ID], problems[o.ID] = o, problem
		return err
	})
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(found, func(id int64, _ row.Outcome) bool { return c.IsUnreadable(id) })
	if len(found) == 0 {
		return nil, cause
	}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		c.SkipUnreadable(id)
		left, err := r.recordError(c, found[id], fmt.Errorf("it cannot be read: %s", problems[id]))
		if err != nil {
			return locked, err
		}
		locked = append(locked, left...)
	}
	return locked, nil
}
