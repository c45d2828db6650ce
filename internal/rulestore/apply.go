package rulestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulesession"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Progress says how far a Plan, an Apply or a Remove has come.
type Progress struct {
	Rule string
	// Rows is the number of rows that were looked at or cancelled.
	Rows int64
	// Waits is set if another session has held a row for some seconds, and is told again each time. Apply
	// goes on when that session lets go.
	Waits *LockedError
}

// ErrChanged is returned by Apply if another Apply or a Remove has changed the rule meanwhile.
var ErrChanged = errors.New("another apply or remove has changed the rule: plan again")

// PartialError is returned by Apply if a rule fails after Apply has changed something: it has applied rules before, or
// created the triggers of this one. The next Apply goes on.
type PartialError struct {
	Rule string
	Err  error
}

// Error says why the rule failed, and that the next apply goes on.
func (e *PartialError) Error() string {
	return fmt.Sprintf("%v; what was done before stays, and the next rules apply goes on with rule %s", e.Err, e.Rule)
}

// Unwrap returns why the rule failed.
func (e *PartialError) Unwrap() error { return e.Err }

// Apply does what Plan says. It is idempotent. It creates the triggers of a rule in one
// transaction, and then lets the rows of the table wait page by page, each in a transaction. If it
// is interrupted, the next Apply resumes it. Applications go on writing to the table. Of two concurrent
// Applies of the same file, one writes a page and the other goes on behind it. Both return when the rule is
// applied.
//
// Returns an OverdueError, and changes nothing, if steps of rows have passed and a rule does not say
// what happens to them. Returns a PartialError, with the plan of the rules that it has applied, if a rule
// fails after something was changed. Told is called after each transaction. Optional.
func (s *Store) Apply(ctx context.Context, file rule.File, told func(Progress)) (Plan, error) {
	plan, err := s.prepare(ctx, file, true)
	if err == nil {
		err = s.refuseOverdue(ctx, plan)
	}
	if err != nil {
		return Plan{}, err
	}
	if told == nil {
		told = func(Progress) {}
	}
	begun := false
	for i := range plan.Rules {
		p := &plan.Rules[i]
		err := s.apply(ctx, p, told)
		begun = begun || p.begun
		if errors.Is(err, ErrChanged) {
			err = s.join(ctx, file, p, told)
			begun = begun || p.begun
		}
		if err == nil {
			continue
		}
		err = s.Explain(ctx, p.rule.Applied, err)
		if problem, ok := errors.AsType[*rule.Problem](err); ok {
			err = problem
		} else {
			err = fmt.Errorf("apply rule %s: %w", p.Name, err)
		}
		if begun {
			plan.Rules, err = plan.Rules[:i], &PartialError{p.Name, err}
		}
		return plan, err
	}
	return plan, nil
}

// join goes on with a rule that another Apply of the same file has changed first. It returns ErrChanged if the rule is
// not the same now.
func (s *Store) join(ctx context.Context, file rule.File, p *RulePlan, told func(Progress)) error {
	was, err := s.Get(ctx, p.Name)
	if errors.Is(err, ErrNotFound) || err == nil && was.State == Removing {
		return ErrChanged
	}
	if err != nil {
		return err
	}
	once := *s
	once.again = false // the other Apply looks at the rows
	joined, err := once.prepareRule(ctx, file, resolver{store: &once, rule: p.rule.Rule}, &was)
	if err != nil {
		return err
	}
	if joined.Action != Resume && joined.Action != Unchanged {
		return ErrChanged
	}
	*p = joined
	return once.apply(ctx, p, told)
}

// refuseOverdue returns an error for each rule that does not say what happens to rows whose steps
// have passed, if there are any.
func (s *Store) refuseOverdue(ctx context.Context, plan Plan) error {
	var refused []error
	for i := range plan.Rules {
		p := &plan.Rules[i]
		if !p.walks || p.rule.Rule.Overdue != (rule.Overdue{}) {
			continue
		}
		some, err := s.passed(ctx, p)
		if err == nil && some {
			err = s.count(ctx, p, func(page) {})
		}
		if err != nil {
			return s.unread(ctx, *p, err)
		}
		if p.Refused {
			refused = append(refused, &OverdueError{p.Name, p.rule.Rule.Line, p.Overdue})
		}
		p.reset()
	}
	return errors.Join(refused...)
}

// passed reports whether the first step of a row may have passed. The server finds out faster than
// a walk that no row of a new rule is overdue.
func (s *Store) passed(ctx context.Context, p *RulePlan) (some bool, err error) {
	f := p.rule.Facts
	if p.was != nil || f.Lookup() || len(f.After) > 0 {
		return true, nil
	}
	query := fmt.Sprintf("select exists (select from %s where %s and not %s and %s + %s <= %s)",
		p.rule.Relation, f.WhereSQL(), f.DoneSQL(present), f.SinceSQL(), seconds(p.timing.EarliestFrom(0)), present)
	err = pgsql.ReadTx(ctx, s.db, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, rulesession.Read); err != nil {
			return err
		}
		return tx.GetContext(ctx, &some, query, s.clock())
	})
	return some, err
}

// present is the instant of a statement whose parameter is the clock.
const present = "coalesce($1::timestamptz, clock_timestamp())"

// clock returns the parameter that gives statements a replayed clock. Nil asks the database.
func (s *Store) clock() any {
	if s.cfg.Now != nil {
		return s.cfg.Now()
	}
	return nil
}

// apply applies one rule.
func (s *Store) apply(ctx context.Context, p *RulePlan, told func(Progress)) error {
	if p.Action == Unchanged {
		return nil
	}
	version, err := s.install(ctx, p)
	if err != nil {
		return err
	}
	p.begun = true
	if p.walks {
		err := s.walkOver(ctx, p, version, told)
		p.close()
		return err
	}
	return s.changed(ctx, pg.RuleDone, p.Name, version, s.cfg.Actor)
}

// install writes the rule down and creates its triggers, in one transaction. A transaction that
// writes to the table after it calls the triggers. Those before it have ended, and the walk sees
// their rows.
func (s *Store) install(ctx context.Context, p *RulePlan) (version int, err error) {
	definition, err := definitionOf(p.rule.Applied)
	if err != nil {
		return 0, err
	}
	err = s.lockTable(ctx, p.Name, p.rule.Relation, false, func(tx *sqlx.Tx) (err error) {
		switch {
		case p.was == nil:
			err = pg.One(ctx, tx, pg.RuleInsert.In(s.schema), []any{p.Name, p.rule.Relation, definition, s.clock()},
				&version)
			if err == nil {
				_, err = tx.ExecContext(ctx, pg.RuleJob.In(s.schema), p.Name)
			}
		case p.Action == Resume:
			version = p.was.Version
		default:
			err = pg.One(ctx, tx, pg.RuleChange.In(s.schema),
				[]any{p.Name, definition, p.was.Version, p.walks, p.rule.Relation, p.retimed()}, &version)
		}
		if errors.Is(err, sql.ErrNoRows) {
			return ErrChanged
		}
		if err == nil {
			err = p.createTriggers(ctx, tx)
		}
		return err
	})
	return version, err
}

// createTriggers creates or replaces the triggers and their functions. If a trigger is there, it does so
// once more, because that waits for the transactions that have written to the table.
func (p *RulePlan) createTriggers(ctx context.Context, tx *sqlx.Tx) error {
	create := func(what, statements string) error {
		if _, err := tx.ExecContext(ctx, statements); err != nil {
			return fmt.Errorf("create %s: %w", what, owned(err))
		}
		return nil
	}
	if err := create("what the triggers read of a row", p.before); err != nil {
		return err
	}
	for _, t := range p.triggers {
		statements := t.create
		if !t.there {
			statements = t.function + "\n" + t.create
		}
		if err := create("trigger "+t.name, statements); err != nil {
			return err
		}
	}
	if err := create("the functions of a row", p.after); err != nil {
		return err
	}
	if err := create("the triggers of the other tables", p.also); err != nil {
		return err
	}
	var same bool // the table has its name until the transaction ends
	err := tx.GetContext(ctx, &same, "select $1::regclass::oid = $2", p.rule.Relation, p.rule.table.OID)
	if err == nil && !same {
		err = fmt.Errorf("another table has taken the name of table %s: try again", p.rule.Relation)
	}
	return err
}

// walkOver lets the rows of the table wait as the rule says.
func (s *Store) walkOver(ctx context.Context, p *RulePlan, version int, told func(Progress)) error {
	w := s.walk(p)
	if p.Action == Resume {
		w.after = p.was.Position
	}
	progress := Progress{Rule: p.Name}
	for tries := 1; ; tries++ {
		var next page
		err := pgsql.InTx(ctx, s.db, func(tx *sqlx.Tx) (err error) {
			if _, err := tx.ExecContext(ctx, pg.WaitForLocks(walkTimeout).In(s.schema)); err != nil {
				return err
			}
			if next, err = w.read(ctx, tx); err != nil {
				return err
			}
			if err := w.write(ctx, tx, next); err != nil {
				return err
			}
			// The fence of the page: a remove that comes first undoes it, and one that comes later finds its rows.
			if next.end {
				return s.fence(ctx, tx, pg.RuleDone, p.Name, version, s.cfg.Actor)
			}
			before := sql.NullString{String: w.after, Valid: w.after != ""}
			return s.fence(ctx, tx, pg.RulePosition, p.Name, version, before, next.last)
		})
		if pg.IsLockTimeout(err) {
			if tries%walkTries == 0 {
				told(Progress{Rule: p.Name, Rows: progress.Rows, Waits: s.locked(ctx, p.Name, p.rule.Relation, false, err)})
			}
			if !elapsed.Sleep(ctx, walkPause) {
				return ctx.Err()
			}
			continue
		}
		if errors.Is(err, ErrChanged) {
			// Another Apply of the same version has come further, or is done.
			now, getErr := s.Get(ctx, p.Name)
			switch {
			case getErr != nil || now.Version != version || now.State == Removing:
			case now.State == Active:
				return nil
			case now.Position != w.after:
				w.after = now.Position
				continue
			}
		}
		if err != nil {
			return err
		}
		tries = 0
		p.count(next)
		progress.Rows += int64(len(next.rows))
		told(progress)
		if w.after = next.last; next.end {
			return nil
		}
	}
}

// A transaction of an application locks the checks of the rows that it updates. A page that waits for
// them gives up sooner than the server looks for a deadlock, which is after 1 s by default. Otherwise the
// application could be the one that the server ends. The page also gives up the locks that it has.
const (
	walkTimeout = 500 * time.Millisecond
	walkPause   = 200 * time.Millisecond
	walkTries   = 5 // after so many it tells who has the lock
)

// changed runs a statement that changes a rule. It returns ErrChanged if there is no row to change.
func (s *Store) changed(ctx context.Context, statement pg.Statement, args ...any) error {
	return pgsql.InTx(ctx, s.db, func(tx *sqlx.Tx) error { return s.fence(ctx, tx, statement, args...) })
}

// fence is changed in a transaction, which must be rolled back after an error.
func (s *Store) fence(ctx context.Context, tx *sqlx.Tx, statement pg.Statement, args ...any) error {
	var name string
	err := pg.One(ctx, tx, statement.In(s.schema), args, &name)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrChanged
	}
	return err
}

// The lock of a table for its triggers blocks the applications that write to it, and those that
// come later wait behind it. So it waits briefly, and then lets them through.
const (
	lockTimeout = 2 * time.Second
	lockTries   = 5
	lockPause   = time.Second
)

// LockedError says that another session holds a lock on a table, or on its rule.
type LockedError struct {
	Table string
	// Holder describes the session, and Mends is the statement that ends it. Empty: not known.
	Holder, Mends string
	Err           error
}

// Error says who holds the lock, and what to do.
func (e *LockedError) Error() string {
	text := fmt.Sprintf("table %s is locked by another session", e.Table)
	if e.Holder != "" {
		text = fmt.Sprintf("table %s is locked by %s, which %s ends", e.Table, e.Holder, e.Mends)
	}
	return text + ": try again when its transaction has ended"
}

// Unwrap returns the error of the server.
func (e *LockedError) Unwrap() error { return e.Err }

// lockTable runs fn, which changes the rule of a name and creates or drops triggers of its table, in a
// transaction that does not wait long for a lock. It tries a few times. exclusive tells that readers of
// the table are in the way, too.
func (s *Store) lockTable(
	ctx context.Context, name, relation string, exclusive bool, fn func(tx *sqlx.Tx) error,
) error {
	for try := 1; ; try++ {
		err := pgsql.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
			if _, err := tx.ExecContext(ctx,
				fmt.Sprintf("set local lock_timeout = %d", lockTimeout.Milliseconds())); err != nil {
				return err
			}
			return fn(tx)
		})
		if !pg.IsLockTimeout(err) {
			return err
		}
		if try == lockTries {
			return s.locked(ctx, name, relation, exclusive, err)
		}
		if !elapsed.Sleep(ctx, lockPause) {
			return ctx.Err()
		}
	}
}

// locked finds out who holds the lock.
func (s *Store) locked(ctx context.Context, name, relation string, exclusive bool, err error) *LockedError {
	e := &LockedError{Table: relation, Err: err}
	_ = pgsql.ReadTx(ctx, s.db, func(tx *sqlx.Tx) error {
		return pg.One(ctx, tx, pg.RuleHolders.In(s.schema), []any{relation, exclusive, name}, &e.Holder, &e.Mends)
	})
	return e
}
