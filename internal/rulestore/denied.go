package rulestore

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulesession"
)

// lacking returns a warning about a right that the checks of a rule lack. With roles, another login may run the slots,
// so only the rights of the role of a rule are known. Without roles, the login that applies rules runs the slots, too.
func (s *Store) lacking(ctx context.Context, u understood) (warnings []string, err error) {
	if u.table.Roles && u.Rule.Role == "" {
		return nil, nil
	}
	lacks, err := s.denied(ctx, u.Applied)
	if pg.IsLockTimeout(err) {
		return nil, nil // doctor says it
	}
	if err != nil || lacks == nil {
		return nil, err
	}
	return []string{fmt.Sprintf("checks fail as %s: %s: %s", lacks.Role, lacks.Why, lacks.Do())}, nil
}

// denied returns the first right that the checks of a rule lack: to read the rows, or to execute the SQL of a step. The
// server tests them when it plans a statement, and executes none.
func (s *Store) denied(ctx context.Context, r rule.Applied) (denied *Denied, err error) {
	err = s.readTable(ctx, func(tx *sqlx.Tx) error {
		denied = nil
		for i := -1; i < len(r.Rule.Steps) && denied == nil; i++ {
			what, query, settings := "", r.RowsQuery(), rulesession.Read
			if i >= 0 {
				what, settings = "step "+r.Rule.Steps[i].Name+": ", qualifiedNames+"; reset row_security"
				query, _ = r.Query(i)
			}
			if query == "" {
				continue
			}
			if _, err := tx.ExecContext(ctx, settings); err != nil {
				return err
			}
			asked, err := s.mayPlan(ctx, tx, r, query)
			if err != nil {
				return err
			}
			if asked != nil {
				asked.Why = what + asked.Why
				denied = asked
			}
		}
		return nil
	})
	return denied, err
}

// mayPlan lets the server plan a statement of a rule, as the role of the rule. It returns the right that is missing.
// Nil: none.
func (s *Store) mayPlan(ctx context.Context, tx *sqlx.Tx, r rule.Applied, query string) (*Denied, error) {
	var statements []string
	if role := r.Rule.Role; role != "" {
		statements = append(statements, "set local role "+pq.QuoteIdentifier(role))
	}
	statements = append(statements, "explain "+anyParameter.ReplaceAllString(query, "null"))
	refused, err := refusal(ctx, tx, true, statements...)
	switch {
	case err != nil:
		return nil, err
	case refused == nil:
		return nil, undo(ctx, tx)
	case refused.Code != pqerror.InsufficientPrivilege:
		return nil, nil
	}
	var login string
	var member bool
	var grants pq.StringArray
	err = pg.One(ctx, tx, pg.RuleReader.In(s.schema),
		[]any{r.Rule.Role, r.Relation, pq.Array(slices.Concat(r.Reads, r.Payload))}, &login, &member, &grants)
	if err != nil {
		return nil, err
	}
	role := login
	if r.Rule.Role != "" {
		role = pq.QuoteIdentifier(r.Rule.Role)
	}
	if !member {
		return &Denied{login, refused.Message, []string{"grant " + role + " to " + login}}, nil
	}
	if pg.IsRowSecurity(refused) {
		grants = []string{"alter role " + role + " bypassrls"}
	}
	return &Denied{role, refused.Message, grants}, nil
}

// anyParameter matches a parameter of a query of a rule, without its type.
var anyParameter = regexp.MustCompile(`\$[0-9]+\b`)
