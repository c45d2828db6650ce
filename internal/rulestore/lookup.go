package rulestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulesession"
	pgsql "github.com/prescient-go/prescient/sql"
)

// anyKeys matches the keys of a query of rows, and anyInstant the instant of the checks.
var (
	anyKeys    = regexp.MustCompile(`\$[0-9]+::text\[\]`)
	anyInstant = regexp.MustCompile(`\$[0-9]+::timestamptz`)
)

// lookups lets the server plan the query of the checks of a rule that looks something up, as the role of the rule. It
// returns a warning for each table that the query would read as a whole for each row, because it has no index that
// serves. The error is a Problem if the role may not run the query.
func (s *Store) lookups(ctx context.Context, r rule.Applied) (warnings []string, err error) {
	if !r.Facts.Lookup() && len(r.Values) == 0 {
		return nil, nil
	}
	// A null key keeps the server from seeing that there is none.
	query := anyInstant.ReplaceAllString(anyKeys.ReplaceAllString(r.RowsQuery(), "'{null}'::text[]"), "clock_timestamp()")
	var plan string
	settings := rulesession.Read + "; set local enable_seqscan = off"
	err = s.trial(ctx, settings, r.Rule.Role, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &plan, "explain (format json, verbose, costs off) "+query)
	})
	refused, isRefused := errors.AsType[*pq.Error](err)
	switch {
	case err == nil:
		return unindexed(r, plan)
	case isRefused && refused.Code == pqerror.InsufficientPrivilege && r.Rule.Role == "":
		return []string{fmt.Sprintf("this login may not look up what the rule does (%s): "+
			"the login of the runs needs the right", refused.Message)}, nil
	case isRefused && refused.Code == pqerror.InsufficientPrivilege:
		return nil, r.Rule.Problem("role", "role %s may not look up what the rule does: %s", r.Rule.Role, refused.Message)
	}
	return nil, fmt.Errorf("plan the query of rule %s: %w", r.Rule.Name, err)
}

// never returns a warning for each condition that the server knows to be never true, such as status != null. "false"
// means that on purpose.
func (s *Store) never(ctx context.Context, r rule.Applied) (warnings []string, err error) {
	err = pgsql.ReadTx(ctx, s.db, func(tx *sqlx.Tx) error {
		warnings = nil
		if _, err := tx.ExecContext(ctx, rulesession.Read+"; set local constraint_exclusion = on"); err != nil {
			return err
		}
		for _, p := range partsOf(r) {
			if !p.truth || strings.EqualFold(p.text, "false") {
				continue
			}
			var plan string
			err := tx.GetContext(ctx, &plan,
				fmt.Sprintf("explain (format json, costs off) select from %s where %s", r.Relation, p.sql))
			if err != nil {
				return err
			}
			var root []struct{ Plan node }
			if err := json.Unmarshal([]byte(plan), &root); err != nil {
				return fmt.Errorf("read the plan of a condition of rule %s: %w", r.Rule.Name, err)
			}
			if len(root) == 0 || root[0].Plan.Once != "false" {
				continue
			}
			problem := r.Rule.Problem(p.field, "%s is never true", p.text)
			if nulls.MatchString(p.text) {
				problem.Message += ": nothing equals null. Write is null, or is not null"
			}
			problem.Rule = ""
			warnings = append(warnings, problem.Error())
		}
		return nil
	})
	if refused, ok := errors.AsType[*pq.Error](err); ok && refused.Code == pqerror.InsufficientPrivilege {
		return nil, nil // the login may not look up what the rule does, and lookups tells it
	}
	return warnings, err
}

// nulls matches a comparison with null.
var nulls = regexp.MustCompile(`(?i)(=|<>)\s*null\b`)

// node is a part of a plan.
type node struct {
	Once   string `json:"One-Time Filter"`
	Kind   string `json:"Node Type"`
	Schema string `json:"Schema"`
	Table  string `json:"Relation Name"`
	Alias  string `json:"Alias"`
	Filter string `json:"Filter"`
	Plans  []node `json:"Plans"`
}

// columns says which columns of its table a filter is about: "on order_id, kind".
func (n node) columns() string {
	var list []string
	named := regexp.MustCompile(`(?:^|[^\w."])` + regexp.QuoteMeta(n.Alias) + `\.("(?:[^"]|"")+"|\w+)`)
	for _, found := range named.FindAllStringSubmatch(n.Filter, -1) {
		if !slices.Contains(list, found[1]) {
			list = append(list, found[1])
		}
	}
	if len(list) == 0 {
		return "for " + n.Filter
	}
	return "on " + strings.Join(list, " and ")
}

// unindexed returns a warning for each table that a plan reads as a whole although it was told not to. The query has a
// lookup several times, whose table the server then calls p, p_1 and p_2: it is told of once.
func unindexed(r rule.Applied, plan string) (warnings []string, err error) {
	if plan == "" {
		return nil, nil
	}
	var root []struct{ Plan node }
	if err := json.Unmarshal([]byte(plan), &root); err != nil {
		return nil, fmt.Errorf("read the plan of the query of rule %s: %w", r.Rule.Name, err)
	}
	var visit func(n node)
	visit = func(n node) {
		if n.Kind == "Seq Scan" && n.Filter != "" {
			warning := fmt.Sprintf("each check reads all of table %s, which has no index %s", n.Schema+"."+n.Table, n.columns())
			if !slices.Contains(warnings, warning) {
				warnings = append(warnings, warning)
			}
		}
		for _, sub := range n.Plans {
			visit(sub)
		}
	}
	for _, n := range root {
		visit(n.Plan)
	}
	return warnings, nil
}
