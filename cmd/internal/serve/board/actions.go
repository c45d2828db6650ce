package board

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
)

// ErrReader is returned to readers who request an action.
var ErrReader = errors.New("this needs the token of an operator, one of server.token")

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
	renew time.Duration // how often a running action is renewed
}

func newOperator(ctx context.Context, s *source) *operator {
	o := &operator{source: s, busy: make(chan struct{}, 1), renew: renewEvery}
	o.going, o.stop = context.WithCancel(context.WithoutCancel(ctx))
	return o
}

// close stops the actions that go on, and waits until their results are recorded.
func (o *operator) close() {
	o.stop()
	o.work.Wait()
}

// Plan says what an action will do, and has the token that confirms it.
type Plan struct {
	action.Plan
	// Confirm is the token that makes Do do exactly what the plan says, or nothing.
	Confirm string `json:"confirm"`
}

// The outcomes of an action.
const (
	Running   = "running"
	Succeeded = "done"
	Failed    = "failed"
	Stopped   = "stopped" // by the end of its server; part of it may be done
)

// Done is the record of a confirmed action. ByRole is the database role.
type Done struct {
	ID         int64      `json:"id"`
	At         time.Time  `json:"at"`
	FinishedAt *time.Time `json:"finished_at"` // null: it goes on. If its server was killed, the last sign of it
	ByRole     string     `json:"by_role"`
	Actor      string     `json:"actor"`
	What       string     `json:"what"`
	Target     string     `json:"target"`
	Text       string     `json:"text"` // of the plan
	action.Counts
	Outcome string `json:"outcome"` // running, done, failed or stopped
	Result  string `json:"result"`  // a sentence; the error if it failed
	// Acted is the number of the action. Reads that pass it show what was done.
	Acted int64 `json:"acted,omitempty"`
}

// ChangedError is returned by Do if the action would now do something else than what was confirmed.
// Nothing was done.
type ChangedError struct {
	Plan Plan // the current plan
}

func (e *ChangedError) Error() string {
	return "things have changed since the preview, and nothing was done; it would now do this: " + e.Plan.Text
}

// on returns the store of actions.
func (o *operator) on(t *tools) *action.Store {
	names := []string{}
	for d := range o.cfg.Runner.Registry.All() {
		names = append(names, d.Name)
	}
	return &action.Store{
		DB: o.cfg.DB, Schema: o.schema, Setting: t.setting,
		Ledger: t.ledger, Client: t.client, Schedules: t.store, Rules: t.rules,
		Runner: o.cfg.Runner, Publishing: o.cfg.Publishing, Jobs: names, Self: o.cfg.Self,
	}
}

// maxPlans bounds the concurrent plans. The plan of a catch-up needs a second connection, and the
// pool of a command has more than maxPlans.
const maxPlans = slots.OwnConnections - 1

// NewPlans returns a bound of maxPlans.
func NewPlans() chan struct{} { return make(chan struct{}, maxPlans) }

// ErrLocked is returned if another transaction holds the lock on an action's rows for longer than
// the action waits, or changes them again and again.
var ErrLocked = errors.New("another transaction has locked rows that the action would change, and nothing was done: " +
	"try again when it has ended")

// lockTimeout bounds an action's wait for a lock. The user waits, too.
const lockTimeout = 5 * time.Second

// planLocks bounds the wait of a plan for a lock. It is shorter than a statement of it may take, so that the answer
// says what it waits for.
const planLocks = "set local lock_timeout = '2s'"

// transact runs fn in a serializable transaction, when it is its turn. So fn does exactly what it
// has planned, whatever happens concurrently.
func (o *operator) transact(ctx context.Context, fn func(tx *sqlx.Tx) error) error {
	select {
	case o.cfg.Plans <- struct{}{}:
		defer func() { <-o.cfg.Plans }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return pg.SerializableTx(ctx, o.cfg.DB, fn)
}

// Preview returns the plan of an action.
func (o *operator) Preview(ctx context.Context, who web.Who, a action.Action) (Plan, error) {
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
	return plan, explain(err)
}

// explain returns ErrLocked for the error of a wait for locks, and otherwise says what a missing schema means.
func explain(err error) error {
	if pg.IsLockTimeout(err) || pg.IsRetryable(err) {
		return ErrLocked
	}
	return pg.ExplainMissing(err)
}

// plan is Preview in a transaction.
func (o *operator) plan(ctx context.Context, t *tools, tx *sqlx.Tx, a action.Action) (Plan, error) {
	if _, err := tx.ExecContext(ctx, statementTimeout+"; "+planLocks); err != nil {
		return Plan{}, err
	}
	shown, err := action.Preview(ctx, action.Tx{Store: o.on(t), Tx: tx}, a)
	plan := Plan{Plan: shown}
	if err != nil {
		return plan, fmt.Errorf("%s: %w", action.Name(a), err)
	}
	var last int64
	if mayRepeat(a) {
		if err := pg.One(ctx, tx, pg.ActionLast.In(o.schema),
			[]any{action.Name(a), cut(a.Target())}, &last); err != nil {
			return plan, fmt.Errorf("find the last action: %w", err)
		}
	}
	if plan.Members != nil {
		plan.Confirm, err = confirmEach(a, plan.Members)
		return plan, err
	}
	plan.Confirm, err = digest(12, action.Name(a), a, plan.Counts, plan.Fingerprint, last)
	return plan, err
}

// mayRepeat reports whether a second confirmation of one preview would do an action again, because its plan reads the
// same once the action was done, or was undone.
func mayRepeat(a action.Action) bool {
	switch a.(type) {
	case action.Long, action.PauseJob, action.ForgetConsumer:
		return true
	}
	return false
}

// confirmEach returns the token of a Selection: a digest of the action, and one of each member, empty for a member that
// the action leaves as it is.
func confirmEach(a action.Action, members []any) (string, error) {
	token, err := digest(12, action.Name(a), a)
	parts := []string{token}
	for i, m := range members {
		part := ""
		if m != nil && err == nil {
			part, err = digest(6, i, m)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "."), err
}

// digest returns some bytes of a digest of values, in hexadecimal digits.
func digest(bytes int, values ...any) (string, error) {
	text, err := json.Marshal(values)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:bytes]), err
}

// unchanged divides a Selection by the tokens of its plan and of the confirmed one. rest is as it was confirmed, and
// left has changed since. rest is nil if it has no member, or the token is that of another selection.
func unchanged(a action.Selection, now, confirmed string) (rest, left action.Selection) {
	is, was := strings.Split(now, "."), strings.Split(confirmed, ".")
	if len(is) != len(was) || is[0] != was[0] {
		return nil, nil
	}
	is, was = is[1:], was[1:]
	keep, changed := make([]bool, len(was)), make([]bool, len(was))
	for i := range was {
		changed[i] = was[i] != is[i]
		keep[i] = was[i] != "" && !changed[i]
	}
	if !slices.Contains(keep, true) {
		return nil, nil
	}
	return a.Only(keep), a.Only(changed)
}

// Do does what the Plan with this Confirm says. If the action would now do something else, Do does
// nothing and returns a ChangedError. Of a Selection it leaves the members that have changed, and its Result names
// them. If an action goes on when Do returns, its Outcome is Running.
func (o *operator) Do(ctx context.Context, who web.Who, a action.Action, confirm string) (Done, error) {
	if !who.MayChange {
		return Done{}, ErrReader
	}
	t, err := o.newTools(ctx)
	if err != nil {
		return Done{}, err
	}
	var done Done
	if l, is := a.(action.Long); is {
		done, err = o.begin(ctx, t, who, l, confirm)
	} else {
		done, err = o.doOnce(ctx, t, who, a.(action.Quick), confirm)
	}
	log := o.cfg.Logger.With("action", action.Name(a), "target", a.Target(), "actor", who.String())
	if err != nil {
		log.WarnContext(ctx, "action was not done", "error", err)
		return done, explain(err)
	}
	log.InfoContext(ctx, "action", "id", done.ID, "plan", done.Text, "outcome", done.Outcome, "result", done.Result)
	done.Acted = o.cache.act()
	return done, nil
}

// doOnce does a Quick action, with its record.
func (o *operator) doOnce(
	ctx context.Context, t *tools, who web.Who, a action.Quick, confirm string,
) (done Done, err error) {
	err = o.transact(ctx, func(tx *sqlx.Tx) error {
		does, left := a, ""
		plan, err := o.verifyPlan(ctx, t, tx, who, a, confirm)
		if changed, is := errors.AsType[*ChangedError](err); is {
			plan, does, left, err = o.planRest(ctx, t, tx, a, changed, confirm)
		}
		if err != nil {
			return err
		}
		report, err := action.Do(ctx, action.Tx{Store: o.on(t), Tx: tx}, does)
		if err != nil {
			return fmt.Errorf("%s: %w", action.Name(a), err)
		}
		done, err = o.record(ctx, tx, who, plan, Succeeded, report.String()+left)
		return err
	})
	return done, err
}

// begin begins a Long action, with its record.
func (o *operator) begin(
	ctx context.Context, t *tools, who web.Who, a action.Long, confirm string,
) (done Done, err error) {
	_, alone := a.(action.CatchUp)
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
		if plan.Bounded != nil {
			bounded = plan.Bounded
		}
		done, err = o.record(ctx, tx, who, plan, Running, "")
		return err
	})
	if err == nil && o.going.Err() != nil {
		err = slots.ErrStopped
		o.ended(done.ID, a, nil, err)
	}
	if err != nil {
		if alone {
			<-o.busy
		}
		return done, err
	}
	id := done.ID
	o.work.Go(func() {
		stop := o.keepRenewing(id)
		defer stop()
		report, err := action.Run(o.going, o.on(t), bounded, who.String())
		if alone {
			<-o.busy
		}
		o.ended(id, a, report, err)
	})
	return done, nil
}

const (
	// renewEvery is how often the server of a running action says that it goes on.
	renewEvery = 10 * time.Second
	// lostAfter is how long after the last sign a running action counts as stopped. Some signs may be
	// late, because the database is busy or does not answer for a moment.
	lostAfter = time.Minute
	// lost is the result of an action whose server gives no more signs.
	lost = "its server ended without a word, so a part may be done: look, and do the rest by a new action"
)

// keepRenewing says that an action goes on, again and again until stop is called. It does so while
// the server ends, too.
func (o *operator) keepRenewing(id int64) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(o.going))
	var renewing sync.WaitGroup
	renewing.Go(func() {
		tick := time.NewTicker(o.renew)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			err := pgsql.InTx(ctx, o.cfg.DB, func(tx *sqlx.Tx) error {
				_, err := tx.ExecContext(ctx, pg.ActionRenew.In(o.schema), id)
				return err
			})
			if err != nil && ctx.Err() == nil {
				o.cfg.Logger.WarnContext(ctx, "cannot record that an action goes on", "id", id, "error", err)
			}
		}
	})
	return func() {
		cancel()
		renewing.Wait()
	}
}

// endTimeout bounds each try to record an action's end.
const endTimeout = 10 * time.Second

// ended records the end of a Long action. It tries again as long as the server goes on, because without a record the
// action would look as if its server had ended.
func (o *operator) ended(id int64, a action.Action, report action.Report, err error) {
	outcome, result := Succeeded, ""
	if report != nil {
		result = report.String()
	}
	switch {
	case errors.Is(err, slots.ErrStopped) || err != nil && o.going.Err() != nil:
		outcome = Stopped
	case err != nil:
		outcome = Failed
		if result += ": " + err.Error(); report == nil {
			result = err.Error()
		}
	}
	o.cfg.Logger.InfoContext(o.going, "action has ended", "action", action.Name(a), "id", id, "outcome", outcome,
		"result", result, "error", err)
	for !o.recordEnd(id, outcome, result) && o.going.Err() == nil {
		elapsed.Sleep(o.going, o.renew)
	}
	o.cache.act()
}

// recordEnd records the end of an action, and reports whether it did.
func (o *operator) recordEnd(id int64, outcome, result string) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(o.going), endTimeout)
	defer cancel()
	err := pgsql.InTx(ctx, o.cfg.DB, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, pg.ActionEnd.In(o.schema), id, outcome, cut(result))
		return err
	})
	if err != nil {
		o.cfg.Logger.ErrorContext(ctx, "the end of an action cannot be recorded", "id", id, "error", err)
	}
	return err == nil
}

// verifyPlan sets the actor of a transaction and returns the current plan, if that is the confirmed
// one.
func (o *operator) verifyPlan(
	ctx context.Context, t *tools, tx *sqlx.Tx, who web.Who, a action.Action, confirm string,
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
		return plan, &action.RefusedError{Reason: "there is nothing to do: " + plan.Text}
	}
	return plan, o.mayWait(ctx, tx)
}

// mayWait lets a transaction wait for locks, as long as the user does.
func (o *operator) mayWait(ctx context.Context, tx *sqlx.Tx) error {
	_, err := tx.ExecContext(ctx, "set local statement_timeout = 0; "+pg.WaitForLocks(lockTimeout).In(o.schema))
	return err
}

// planRest plans the part of a Selection that is as it was confirmed. left says which part is not. It returns the
// ChangedError for another action, and if nothing is as it was.
func (o *operator) planRest(
	ctx context.Context, t *tools, tx *sqlx.Tx, a action.Quick, changed *ChangedError, confirm string,
) (plan Plan, does action.Quick, left string, err error) {
	all, is := a.(action.Selection)
	if !is {
		return plan, a, "", changed
	}
	rest, others := unchanged(all, changed.Plan.Confirm, confirm)
	if rest == nil {
		return plan, a, "", changed
	}
	left = ". Left as they are, because they have changed since the preview: " + others.Target()
	if plan, err = o.plan(ctx, t, tx, rest); err == nil {
		err = o.mayWait(ctx, tx)
	}
	return plan, rest, left, err
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
	err := tx.QueryRowContext(ctx, pg.ActionInsert.In(o.schema), args...).
		Scan(&d.ID, pg.UTC(&d.At), pg.UTC(&d.FinishedAt), &d.ByRole)
	if err != nil {
		return d, fmt.Errorf("record the action: %w", err)
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
