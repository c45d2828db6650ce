package rulestore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/jobs/rule"
	pgsql "github.com/prescient-go/prescient/sql"
)

// statements lets the server prepare the statement of each step, as the role of the rule. The error
// joins a Problem for each statement that the server refuses. No statement is executed.
func (s *Store) statements(ctx context.Context, r rule.Applied) error {
	if !slices.ContainsFunc(r.Rule.Steps, func(step rule.Step) bool { return step.SQL != "" }) {
		return nil
	}
	var problems []error
	err := pgsql.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
		problems = nil
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
			refused, err := refusal(ctx, tx, r.Query(i))
			if err != nil {
				return err
			}
			// The login of the run may have rights that this login lacks.
			if refused == nil || refused.Code == pqerror.InsufficientPrivilege && r.Rule.Role == "" {
				continue
			}
			problems = append(problems, r.Rule.Problem(fmt.Sprintf("steps[%d].sql", i+1), "%s", explain(refused)))
		}
		return errUndo
	})
	if !errors.Is(err, errUndo) {
		return fmt.Errorf("prepare the statements of rule %s: %w", r.Rule.Name, err)
	}
	return errors.Join(problems...)
}

// spellings are operators of other languages, and how SQL writes them.
var spellings = map[string]string{
	"==": "SQL compares with =", "&&": "SQL writes and", "!": "SQL writes not", "%%": "SQL writes like",
}

// operator matches the message about an operator that the server does not have.
var operator = regexp.MustCompile(`^operator does not exist: (?:\S.* )?(==|&&|!|%%) \S`)

// explain returns why the server refuses SQL, with what it suggests.
func explain(refused *pq.Error) string {
	if m := operator.FindStringSubmatch(refused.Message); m != nil {
		return refused.Message + ": " + spellings[m[1]]
	}
	if refused.Code == pqerror.UndefinedColumn && refused.Hint != "" {
		return refused.Message + ". " + refused.Hint
	}
	return refused.Message
}

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
