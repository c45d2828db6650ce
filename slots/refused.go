package slots

import (
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/slots/internal/server"
	pgsql "github.com/prescient-go/prescient/sql"
)

// refusals are the rows of a claim that the database refuses to read or to record.
type refusals struct {
	left       int64   // rows for which it records no error either
	unreadable []int64 // ids of the rows that cannot be read, in order
}

// noRowsFault lists the classes of errors that would meet any row: by what the schema lacks, what the role may not do, or
// the state that the server is in. PS is the class of the engine's own errors.
var noRowsFault = []pqerror.Class{
	"PS", pqerror.ClassFeatureNotSupported, pqerror.ClassInvalidTransactionState, pqerror.ClassInvalidAuthorizationSpecification,
	pqerror.ClassTransactionRollback, pqerror.ClassSyntaxErrorOrAccessRuleViolation, pqerror.ClassObjectNotInPrerequisiteState,
	pqerror.ClassOperatorIntervention, pqerror.ClassSystemError,
}

// refuses tells whether the database refuses a statement because of the rows that it concerns: a trigger of the
// application raises an error, for example. Citus has no triggers there, and the errors of its workers are of any class.
func (r *run) refuses(err error) bool {
	state := pgsql.State(err)
	return state != "" && !r.setting.Citus && !server.Passes(err) && !slices.Contains(noRowsFault, state.Class())
}

// recordFree records the rows that no other transaction has locked, and returns the others: their checks have run and
// must not run again. If the database refuses a batch, it is divided into halves, down to the row that is to blame.
func (r *run) recordFree(c *claim, batch []row.Outcome, wait time.Duration) (locked []row.Outcome, err error) {
	locked, err = r.recordTogether(c, batch, wait)
	switch {
	case !r.refuses(err):
		return locked, err
	case len(batch) == 1:
		return r.recordError(c, batch[0], fmt.Errorf("its outcome cannot be recorded: %w", err))
	}
	for half := range slices.Chunk(slices.Clone(batch), (len(batch)+1)/2) {
		rest, err := r.recordFree(c, half, server.LockTimeout)
		if err != nil {
			return nil, err
		}
		locked = append(locked, rest...)
	}
	return locked, nil
}

// recordError records that a row was refused as an error of it. If the database refuses that too, the row is left in its
// slot.
func (r *run) recordError(c *claim, o row.Outcome, cause error) (locked []row.Outcome, err error) {
	r.cfg.Logger.DebugContext(r.work, "a row is refused", "id", o.ID, "error", cause)
	job, found, err := r.attempts(o)
	switch {
	case err != nil:
		return nil, err
	case !found: // it was cancelled or moved meanwhile
		r.report.count(row.Tally{Yielded: 1}, nil, r.known)
		return nil, nil
	}
	def := r.known[o.Number].def
	job.JobExec = def.Name
	cause = fmt.Errorf("%s: %w", job.Key(), cause)
	o.Verdict = new(guard.After(def, r.moment(), &job, nil, cause))
	locked, err = r.recordTogether(c, []row.Outcome{o}, server.LockTimeout)
	if r.refuses(err) {
		c.refused.left++
		c.leave(o.ID)
		if n := r.report.refuse(fmt.Errorf("%w; nor can this error: %w", cause, err)); n >= int64(r.cfg.Page) {
			r.halt(r.report.refused())
		}
		return nil, nil
	}
	return locked, err
}

// attempts reads the key of a row, and how many errors in a row it has had. found is false if it is not in the slot.
func (r *run) attempts(o row.Outcome) (job jobs.FutureJob, found bool, err error) {
	err = r.server.Ask(r.work, r.work, pgsql.RowAttempts, []any{r.slot, o.Number, o.ID}, func(rows *sql.Rows) error {
		var item sql.NullString
		found = true
		err := rows.Scan(&job.EntityName, &job.EntityKey, &item, &job.ErrorCount)
		job.ItemKey, job.Anonymous = item.String, !item.Valid
		return err
	})
	return job, found, err
}

// recordUnreadable gives each row of a claim that cannot be read an error. cause is what the server has said of the
// rows together. recordUnreadable returns it if the server can read each of the rows.
func (r *run) recordUnreadable(c *claim, cause error) error {
	found, problems := map[int64]row.Outcome{}, map[int64]string{}
	args := []any{r.slot, c.jobs, c.first, c.last}
	err := r.server.Ask(c.ctx, r.work, pgsql.PageUnreadable, args, func(rows *sql.Rows) error {
		var o row.Outcome
		var problem string
		err := rows.Scan(&o.ID, &o.Number, &problem)
		found[o.ID], problems[o.ID] = o, problem
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range c.refused.unreadable {
		delete(found, id)
	}
	if len(found) == 0 {
		return cause
	}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		c.refused.unreadable = append(c.refused.unreadable, id)
		locked, err := r.recordError(c, found[id], fmt.Errorf("it cannot be read: %s", problems[id]))
		if err != nil {
			return err
		}
		for _, o := range locked {
			c.leave(o.ID)
		}
		c.locked = append(c.locked, locked...)
	}
	slices.Sort(c.refused.unreadable)
	return nil
}

// readable returns the ranges of ids between the rows of a claim that cannot be read.
func (c *claim) readable() (ranges [][2]int64) {
	first := c.first
	for _, id := range c.refused.unreadable {
		if first < id {
			ranges = append(ranges, [2]int64{first, id - 1})
		}
		first = id + 1
	}
	if first <= c.last {
		ranges = append(ranges, [2]int64{first, c.last})
	}
	return ranges
}
