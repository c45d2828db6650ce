package rulestore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/jobs/rule"
	pgsql "github.com/prescient-go/prescient/sql"
)

// statements lets the server prepare the statement of each step, as the role of the rule. The error
// joins a Problem for each statement that the server refuses. No statement is executed.
func (s *Store) statements(ctx context.Context, u understood) error {
	r := u.Applied
	if !slices.ContainsFunc(r.Rule.Steps, func(step rule.Step) bool { return step.SQL != "" }) {
		return nil
	}
	var problems []error
	err := pgsql.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
		problems = nil
		if _, err := tx.ExecContext(ctx, qualifiedNames); err != nil {
			return err
		}
		if role := r.Rule.Role; role != "" {
			_, err := tx.ExecContext(ctx, "set local role "+pq.QuoteIdentifier(role))
			if _, refused := errors.AsType[*pq.Error](err); refused {
				return errUndo // only the login of the run needs to be a member of the role
			}
			if err != nil {
				return err
			}
		}
		for i := range r.Rule.Steps {
			query, written := r.Query(i)
			refused, err := refusal(ctx, tx, query)
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
		return errUndo
	})
	if !errors.Is(err, errUndo) {
		return fmt.Errorf("prepare the statements of rule %s: %w", r.Rule.Name, err)
	}
	return errors.Join(problems...)
}

// qualifiedNames lets a statement find no name without its schema. Another login, such as that of the runs, may have
// another search_path.
const qualifiedNames = "set local search_path = pg_catalog, pg_temp"

// mistakes are the classes of errors that a statement itself causes: data, unknown schemas, syntax and
// names, and features that the server does not have.
var mistakes = []pqerror.Class{"22", "3F", "42", "0A"}

// refusal lets the server parse a statement, and returns why the server refuses it. Nil: it does not.
func refusal(ctx context.Context, tx *sqlx.Tx, query string) (*pq.Error, error) {
	if query == "" {
		return nil, nil
	}
	if _, err := tx.ExecContext(ctx, "savepoint prescient_rule"); err != nil {
		return nil, err
	}
	stmt, err := tx.PrepareContext(ctx, query)
	if err == nil {
		defer func() { _ = stmt.Close() }() // the transaction is rolled back
		return nil, nil
	}
	refused, ok := errors.AsType[*pq.Error](err)
	if !ok || !slices.Contains(mistakes, refused.Code.Class()) {
		return nil, err
	}
	_, err = tx.ExecContext(ctx, "rollback to prescient_rule")
	return refused, err
}
