package rulestore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/sqltext"
)

// statements lets the server prepare the statement of each step, as the role of the rule. The error
// joins a Problem for each statement that the server refuses. No statement is executed.
func (s *Store) statements(ctx context.Context, u understood) error {
	r := u.Applied
	if !slices.ContainsFunc(r.Rule.Steps, func(step rule.Step) bool { return step.SQL != "" }) {
		return nil
	}
	var problems []error
	err := s.trial(ctx, qualifiedNames, r.Rule.Role, func(tx *sqlx.Tx) error {
		problems = nil
		for i := range r.Rule.Steps {
			query, written := r.Query(i)
			if query == "" {
				continue
			}
			refused, err := refusal(ctx, tx, false, query)
			if err != nil {
				return err
			}
			// The login of the run may have rights that this login lacks.
			if refused == nil || refused.Code == pqerror.InsufficientPrivilege && r.Rule.Role == "" {
				continue
			}
			why, err := s.words(ctx, tx, refusedText{
				text: query, statement: query, refused: refused, written: written, target: u.table,
			})
			if err != nil {
				return err
			}
			problems = append(problems, r.Rule.Problem(fmt.Sprintf("steps[%d].sql", i+1), "%s", why))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("prepare the statements of rule %s: %w", r.Rule.Name, err)
	}
	return errors.Join(problems...)
}

// floods returns a warning for each step whose statement moves the clock of its row on from where it stood, such as
// next = next + period. After an outage such a step fires in each slot, until the clock has caught up.
func floods(r rule.Applied) (warnings []string) {
	own := regexp.MustCompile(`(?is)\bupdate\s+(?:only\s+)?` + regexp.QuoteMeta(r.Rule.Table) + `\b`)
	for i, step := range r.Rule.Steps {
		if !own.MatchString(step.SQL) || caughtUp.MatchString(step.SQL) {
			continue
		}
		for _, quoted := range r.Reads {
			column := quoted
			if bare := strings.Trim(quoted, `"`); sqltext.IsPlainName(bare) {
				column = bare
			}
			name := regexp.QuoteMeta(column)
			read := regexp.MustCompile(`(?:^|[^\w"])` + name + `(?:[^\w"]|$)`)
			onward := regexp.MustCompile(`(?is)(?:\bset|,)\s*` + name + `\s*=\s*(?:(?:\w+\.)*` + name + `|\$since)\s*\+`)
			reads := func(e expr.Expr) bool { return read.MatchString(e.SQL) }
			if !slices.ContainsFunc(r.Facts.Since, reads) || !onward.MatchString(step.SQL) {
				continue
			}
			problem := r.Rule.Problem(fmt.Sprintf("steps[%d].sql", i+1), "after an outage, the step fires in each slot until "+
				"%s has caught up. To fire once, count from now: %[1]s = greatest(%[1]s, $now) + ...", column)
			problem.Rule = ""
			warnings = append(warnings, problem.Error())
		}
	}
	return warnings
}

// caughtUp matches a statement that counts from now.
var caughtUp = regexp.MustCompile(`(?i)\$now\b|\b(?:now|clock_timestamp|current_timestamp|current_date)\b`)

// qualifiedNames lets a statement find no name without its schema. Another login, such as that of the runs, may have
// another search_path.
const qualifiedNames = "set local search_path = pg_catalog, pg_temp"

// refusal lets the server prepare statements after a savepoint, and executes each if execute is set. It returns why the
// server refuses one, and undoes the others then. Nil: it refuses none. Each text is a single statement: the server
// prepares no other.
func refusal(ctx context.Context, tx *sqlx.Tx, execute bool, statements ...string) (*pq.Error, error) {
	_, err := tx.ExecContext(ctx, "savepoint "+exprName)
	for _, statement := range statements {
		if err == nil {
			err = prepare(ctx, tx, execute, statement)
		}
	}
	refused, ok := errors.AsType[*pq.Error](err)
	if !ok || !pg.IsMistake(err) {
		return nil, err
	}
	return refused, undo(ctx, tx)
}

func prepare(ctx context.Context, tx *sqlx.Tx, execute bool, statement string) error {
	stmt, err := tx.PrepareContext(ctx, statement)
	if err != nil {
		return err
	}
	defer func() { _ = stmt.Close() }()
	if execute {
		_, err = stmt.ExecContext(ctx)
	}
	return err
}

// undo takes back what was done after the savepoint of refusal. Citus cannot drop it, because its workers have no
// pg_temp.
func undo(ctx context.Context, tx *sqlx.Tx) error {
	_, err := tx.ExecContext(ctx, "rollback to "+exprName)
	return err
}
