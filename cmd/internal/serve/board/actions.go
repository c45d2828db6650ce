package board

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
)

// ErrReader is returned to readers who request an action.
var ErrReader = errors.New("this needs the token of an operator, one of server.token")

// NoRights is the answer if the database refuses a request of the server for lack of rights.
const NoRights = "the database role of this server may not do that: " +
	"grant its login the role of operators, which migrate roles creates"

// ErrCatchingUp is returned while another catch-up runs.
var ErrCatchingUp = errors.New("this server runs a catch-up already: wait until it has ended")

// operator plans and does actions.
type operator struct {
	*source

	// The life of actions that go on after Do has returned.
	going context.Context
	stop  context.CancelFunc
	work  sync.WaitGroup
	busy  chan struct{} // holds one entry while a catch-up runs
}

func newOperator(ctx context.Context, s *source) *operator {
	o := &operator{source: s, busy: make(chan struct{}, 1)}
	o.going, o.stop = context.WithCancel(context.WithoutCancel(ctx))
	return o
}

// close stops the actions that go on, and waits until their results are recorded.
func (o *operator) close() {
	o.stop()
	o.work.Wait()
}

// planner has what plans need: a transaction, and what it reads from.
type planner struct {
	*reader
	from *source
}

// maxPlans bounds the concurrent plans. The plan of a catch-up needs a second connection, and the
// pool of a command has more than maxPlans.
const maxPlans = slots.OwnConnections - 1

// NewPlans returns a bound of maxPlans.
func NewPlans() slots.Bound { return make(slots.Bound, maxPlans) }

// ErrLocked is returned if another transaction holds the lock on an action's rows for longer than
// the action waits, or changes them again and again.
var ErrLocked = errors.New("another transaction has locked rows that the action would change, and nothing was done: " +
	"try again when it has ended")

// lockTimeout bounds an action's wait for a lock. The user waits, too.
const lockTimeout = 5 * time.Second

// transact runs fn in a serializable transaction, when it is its turn. So fn does exactly what it
// has planned, whatever happens concurrently.
func (o *operator) transact(ctx context.Context, fn func(tx *sqlx.Tx) error) error {
	select {
	case o.cfg.Plans <- struct{}{}:
		defer func() { <-o.cfg.Plans }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return pgsql.SerializableTx(ctx, o.cfg.DB, fn)
}

// Preview returns the plan of an action.
func (o *operator) Preview(ctx context.Context, who web.Who, a Action) (Plan, error) {
	if !who.MayChange {
		return Plan{}, ErrReader
	}
	t, err := o.newTools(ctx)
	if err != nil {
		return Plan{}, err
	}
	var plan Plan
	err = o.transact(ctx, func(tx *sqlx.Tx) (err error) {
		plan, err = o.plan(ctx, t, tx, a)
		return err
	})
	return plan, pg.ExplainMissing(err)
}

// plan is Preview in a transaction.
func (o *operator) plan(ctx context.Context, t *tools, tx *sqlx.Tx, a Action) (Plan, error) {
	if _, err := tx.ExecContext(ctx, statementTimeout); err != nil {
		return Plan{}, err
	}
	r := &reader{tools: t, tx: tx}
	plan, err := a.plan(ctx, &planner{r, o.source})
	if err != nil {
		return plan, fmt.Errorf("%s: %w", a.name(), err)
	}
	var last int64
	// its plan does not show what it has done, so a second confirmation would do it twice
	if _, is := a.(asyncAction); is {
		if err := pg.One(ctx, r, pg.ActionLast.In(o.schema),
			[]any{a.name(), cut(a.target())}, &last); err != nil {
			return plan, fmt.Errorf("find the last action: %w", err)
		}
	}
	plan.What, plan.Target = a.name(), a.target()
	if plan.Warnings == nil {
		plan.Warnings = []string{}
	}
	text, err := json.Marshal([]any{a.name(), a, plan.Counts, plan.fingerprint, last})
	sum := sha256.Sum256(text)
	plan.Confirm = hex.EncodeToString(sum[:12])
	return plan, err
}

// Do does what the Plan with this Confirm says. If the action would now do something else, Do does
// nothing and returns a ChangedError. If an action goes on when Do returns, its Outcome is Running.
func (o *operator) Do(ctx context.Context, who web.Who, a Action, confirm string) (Done, error) {
	if !who.MayChange {
		return Done{}, ErrReader
	}
	t, err := o.newTools(ctx)
	if err != nil {
		return Done{}, err
	}
	var done Done
	if l, is := a.(asyncAction); is {
		done, err = o.begin(ctx, t, who, l, confirm)
	} else {
		done, err = o.doOnce(ctx, t, who, a.(txAction), confirm)
	}
	log := o.cfg.Logger.With("action", a.name(), "target", a.target(), "actor", who.String())
	if err != nil {
		log.WarnContext(ctx, "action was not done", "error", err)
		if pg.IsLockTimeout(err) || pg.IsRetryable(err) {
			err = ErrLocked
		}
		return done, pg.ExplainMissing(err)
	}
	log.InfoContext(ctx, "action", "id", done.ID, "plan", done.Text, "outcome", done.Outcome, "result", done.Result)
	done.Acted = o.cache.act()
	return done, nil
}

// doOnce does a txAction, with its record.
func (o *operator) doOnce(
	ctx context.Context, t *tools, who web.Who, a txAction, confirm string,
) (done Done, err error) {
	err = o.transact(ctx, func(tx *sqlx.Tx) error {
		plan, err := o.verifyPlan(ctx, t, tx, who, a, confirm)
		if err != nil {
			return err
		}
		result, err := a.do(ctx, tx, t)
		if err != nil {
			return fmt.Errorf("%s: %w", a.name(), err)
		}
		done, err = o.record(ctx, tx, who, plan, Succeeded, result)
		return err
	})
	return done, err
}

// begin begins an asyncAction, with its record.
func (o *operator) begin(
	ctx context.Context, t *tools, who web.Who, a asyncAction, confirm string,
) (done Done, err error) {
	_, alone := a.(CatchUp)
	if alone {
		select {
		case o.busy <- struct{}{}:
		default:
			return done, ErrCatchingUp
		}
	}
	bounded := a
	err = o.transact(ctx, func(tx *sqlx.Tx) error {
		plan, err := o.verifyPlan(ctx, t, tx, who, a, confirm)
		if err != nil {
			return err
		}
		if plan.bounded != nil {
			bounded = plan.bounded
		}
		done, err = o.record(ctx, tx, who, plan, Running, "")
		return err
	})
	if err == nil && o.going.Err() != nil {
		err = slots.ErrStopped
		o.ended(done.ID, a, "", err)
	}
	if err != nil {
		if alone {
			<-o.busy
		}
		return done, err
	}
	id := done.ID
	o.work.Go(func() {
		result, err := bounded.run(o.going, o.source, t, who)
		if alone {
			<-o.busy
		}
		o.ended(id, a, result, err)
	})
	return done, nil
}

// endTimeout bounds the recording of an action's end.
const endTimeout = 10 * time.Second

// ended records the end of an asyncAction.
func (o *operator) ended(id int64, a Action, result string, err error) {
	outcome := Succeeded
	switch {
	case errors.Is(err, slots.ErrStopped) || err != nil && o.going.Err() != nil:
		outcome = Stopped
	case err != nil:
		outcome, result = Failed, cmp.Or(result, err.Error())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(o.going), endTimeout)
	defer cancel()
	o.cfg.Logger.InfoContext(ctx, "action has ended", "action", a.name(), "id", id, "outcome", outcome,
		"result", result, "error", err)
	err = pgsql.InTx(ctx, o.cfg.DB, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, pg.ActionEnd.In(o.schema), id, outcome, cut(result))
		return err
	})
	if err != nil {
		o.cfg.Logger.ErrorContext(ctx, "the end of an action cannot be recorded", "id", id, "error", err)
	}
	o.cache.act()
}

// verifyPlan sets the actor of a transaction and returns the current plan, if that is the confirmed
// one.
func (o *operator) verifyPlan(
	ctx context.Context, t *tools, tx *sqlx.Tx, who web.Who, a Action, confirm string,
) (Plan, error) {
	if err := jobs.SetActor(ctx, tx, who.String()); err != nil {
		return Plan{}, err
	}
	plan, err := o.plan(ctx, t, tx, a)
	switch {
	case err != nil:
		return plan, err
	case plan.Confirm != confirm:
		return plan, &ChangedError{plan}
	case plan.Nothing:
		return plan, &RefusedError{"there is nothing to do: " + plan.Text}
	}
	_, err = tx.ExecContext(ctx, "set local statement_timeout = 0; "+pg.WaitForLocks(lockTimeout).In(o.schema))
	return plan, err
}

// record writes an action to table action.
func (o *operator) record(ctx context.Context, tx *sqlx.Tx, who web.Who, p Plan, outcome, result string) (Done, error) {
	d := Done{
		Actor: who.String(), What: p.What, Target: p.Target, Text: p.Text, Counts: p.Counts,
		Outcome: outcome, Result: result,
	}
	args := []any{
		d.Actor, d.What, cut(d.Target), cut(d.Text), d.Rows, d.Slots, d.Schedules,
		d.Events, outcome, cut(result),
	}
	err := tx.QueryRowContext(ctx, pg.ActionInsert.In(o.schema), args...).Scan(&d.ID, &d.At, &d.EndedAt, &d.By)
	if err != nil {
		return d, fmt.Errorf("record the action: %w", err)
	}
	d.At = d.At.UTC()
	if d.EndedAt != nil {
		d.EndedAt = new(d.EndedAt.UTC())
	}
	return d, nil
}

// maxRecorded bounds a recorded text, in characters.
const maxRecorded = 2000

func cut(text string) string {
	if runes := []rune(text); len(runes) > maxRecorded {
		return string(runes[:maxRecorded]) + "..."
	}
	return text
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
