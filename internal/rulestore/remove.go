package rulestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/admin"
	pgsql "github.com/prescient-go/prescient/sql"
)

// forgetBatch is how many entries about steps a transaction of Remove deletes.
const forgetBatch = 10_000

// Removed counts what Remove did.
type Removed struct {
	// Cancelled is the number of checks that waited. They are in history.
	Cancelled int64 `json:"cancelled"`
	// Forgotten is the number of entries about steps that had fired.
	Forgotten int64 `json:"forgotten"`
}

// Remove drops the triggers and functions of a rule, cancels the checks that wait, and forgets what
// has fired, in bounded transactions. If it is interrupted, the next Remove resumes it. Checks that
// are due meanwhile end without firing. Returns ErrNotFound if there is no such rule. Told is called
// after each transaction. Optional.
func (s *Store) Remove(ctx context.Context, name string, told func(Progress)) (removed Removed, err error) {
	if told == nil {
		told = func(Progress) {}
	}
	if err = s.uninstall(ctx, name); err == nil {
		removed, err = s.clean(ctx, name, told)
	}
	if err == nil {
		err = s.delete(ctx, name)
	}
	if err != nil {
		return removed, fmt.Errorf("remove rule %s: %w", name, err)
	}
	return removed, nil
}

// uninstall drops the triggers with their functions, and marks the rule. The table may have got another
// name or schema.
func (s *Store) uninstall(ctx context.Context, name string) error {
	status, err := s.Get(ctx, name)
	if err != nil {
		return err
	}
	return s.lockTable(ctx, name, status.Relation, true, func(tx *sqlx.Tx) error {
		var relation, definition string
		err := pg.One(ctx, tx, pg.RuleRemoving.In(s.schema), []any{name}, &relation, &definition)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		// Only the owner of a table may drop its trigger. The owner of the function may drop both.
		_, err = tx.ExecContext(ctx, dropFunctions(s.schema, name))
		return owned(err)
	})
}

// delete deletes the rule, or finds that a concurrent Remove has deleted it.
func (s *Store) delete(ctx context.Context, name string) error {
	err := s.changed(ctx, pg.RuleDelete, name)
	if errors.Is(err, ErrChanged) {
		if _, gone := s.Get(ctx, name); errors.Is(gone, ErrNotFound) {
			return nil
		}
	}
	return err
}

// clean cancels the checks, and deletes what the rule has fired.
func (s *Store) clean(ctx context.Context, name string, told func(Progress)) (removed Removed, err error) {
	if removed.Cancelled, err = s.cancel(ctx, name, told); err != nil {
		return removed, err
	}
	for {
		var n, changes int64
		err := pgsql.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
			return pg.One(ctx, tx, pg.RuleForget.In(s.schema), []any{name, forgetBatch}, &n, &changes)
		})
		if err != nil {
			return removed, err
		}
		if removed.Forgotten += n; max(n, changes) < forgetBatch {
			return removed, nil
		}
	}
}

// cancel cancels the checks. A run that has locked one soon ends it. Returns an error if another
// session keeps one locked.
func (s *Store) cancel(ctx context.Context, name string, told func(Progress)) (cancelled int64, err error) {
	for try := 1; ; try++ {
		before := cancelled
		done, err := admin.New(s.client).CancelAll(ctx, s.db, admin.CancelFilter{JobExec: name}, admin.CancelOptions{
			Actor: s.cfg.Actor, Told: func(n int64) { told(Progress{Rule: name, Rows: before + n}) },
		})
		cancelled += done.Cancelled
		if err != nil || done.Left == 0 {
			return cancelled, err
		}
		if try == lockTries {
			return cancelled, fmt.Errorf("%s locked by another session: remove the rule again when its transaction has ended",
				spoken.Count(done.Left, "check is", "checks are"))
		}
		if !elapsed.Sleep(ctx, lockPause) {
			return cancelled, ctx.Err()
		}
	}
}
