package rulestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulesession"
	pgsql "github.com/prescient-go/prescient/sql"
)

// values are the classes of errors that the values of a row cause: a subquery with several rows, and data.
var values = []pqerror.Class{"21", "22"}

// Explain makes an error of the server about the values of a row a Problem. It says which expression of the rule cannot
// be computed, and for which row. Returns other errors, and one that it cannot explain, as they are.
func (s *Store) Explain(ctx context.Context, r rule.Applied, err error) error {
	refused, ok := errors.AsType[*pq.Error](err)
	if !ok || !slices.Contains(values, refused.Code.Class()) {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, blameTime, err)
	defer cancel()
	for _, p := range partsOf(r) {
		whole := fmt.Sprintf("select * from %s", r.Relation)
		failed, problem := s.fails(ctx, r, p.sql, whole)
		if problem != nil {
			return err
		}
		if failed == nil {
			continue
		}
		return r.Rule.Problem(p.field, "it cannot be computed%s: %s", s.firstRow(ctx, r, p.sql), plainly(failed.Message))
	}
	return err
}

// blameTime bounds how long Explain looks for the row.
const blameTime = 20 * time.Second

// part is an expression of a rule by itself: what the file has, and as SQL of its value. truth tells that it is a
// condition.
type part struct {
	field, text, sql string
	truth            bool
}

// partsOf returns the expressions of a rule, each by itself.
func partsOf(r rule.Applied) (list []part) {
	zone := r.Facts.Zone
	each := func(name string, texts []string, all []expr.Expr, sql func(e []expr.Expr) string) {
		for i, whole := range texts {
			if _, changes := changed(whole); changes && name == "since" {
				continue
			}
			for _, text := range parts(name, whole) {
				p := part{field: rule.Entry(name, i, len(texts)), text: text, truth: all[0].Type == expr.Truth}
				if p.truth {
					p.sql = "(" + all[0].SQL + ")"
				} else {
					p.sql = sql(all[:1])
				}
				list, all = append(list, p), all[1:]
			}
		}
	}
	each("since", r.Rule.Since, r.Facts.Since, func(e []expr.Expr) string {
		return expr.Facts{Zone: zone, Since: e}.SinceSQL()
	})
	each("done", r.Rule.Done, r.Facts.Done, func(e []expr.Expr) string {
		return expr.Facts{Zone: zone, Done: e}.DoneAtSQL()
	})
	each("where", r.Rule.Where, r.Facts.Where, nil)
	each("pause", r.Rule.Pause, r.Facts.Pause, nil)
	f := r.Facts
	if zone := f.Timezone; zone.SQL != "" {
		list = append(list, part{field: "timezone", text: zone.SQL, sql: "(" + zone.SQL + ")"})
	}
	for i := range r.Rule.Steps {
		for _, of := range []struct {
			field string
			list  []expr.Expr
			alone func(e []expr.Expr) expr.Facts
		}{
			{"after", f.After, func(e []expr.Expr) expr.Facts { return expr.Facts{After: e} }},
			{"every", f.Every, func(e []expr.Expr) expr.Facts { return expr.Facts{Every: e} }},
			{"times", f.Times, func(e []expr.Expr) expr.Facts { return expr.Facts{Times: e} }},
			{"calendar", f.Calendar, func(e []expr.Expr) expr.Facts { return expr.Facts{Calendar: e} }},
		} {
			if i < len(of.list) && of.list[i].SQL != "" {
				list = append(list, part{
					field: fmt.Sprintf("steps[%d].%s", i+1, of.field), text: of.list[i].SQL,
					sql: of.alone(of.list[i : i+1]).HeldSQL(),
				})
			}
		}
	}
	return list
}

// fails returns why the server cannot compute an expression for rows of the table, which a query finds. Nil: it can.
func (s *Store) fails(ctx context.Context, r rule.Applied, expression, rows string) (*pq.Error, error) {
	err := pgsql.ReadTx(ctx, s.db, func(tx *sqlx.Tx) error {
		setting := rulesession.Read
		if role := r.Rule.Role; role != "" {
			setting += "; set local role " + pq.QuoteIdentifier(role)
		}
		if _, err := tx.ExecContext(ctx, setting); err != nil {
			return err
		}
		var n int64
		return tx.GetContext(ctx, &n, fmt.Sprintf(
			"select count(prescient_value) from (select %s as prescient_value from (%s) as %s offset 0) as prescient_row",
			expression, rows, r.Name()))
	})
	refused, ok := errors.AsType[*pq.Error](err)
	if ok && slices.Contains(values, refused.Code.Class()) {
		return refused, nil
	}
	return nil, err
}

// firstRow returns " for row 42" with the first key for which an expression fails. Returns "" if it is not found in
// time.
func (s *Store) firstRow(ctx context.Context, r rule.Applied, expression string) string {
	page := func(from, n int64) string {
		return fmt.Sprintf("select * from %s order by %s offset %d limit %d", r.Relation, r.Key.String(), from, n)
	}
	from, n := int64(0), int64(1)
	for ; ; from, n = from+n, 2*n { // the page with the row
		failed, err := s.fails(ctx, r, expression, page(from, n))
		if err != nil || n > 1<<40 {
			return ""
		}
		if failed != nil {
			break
		}
	}
	for n > 1 {
		failed, err := s.fails(ctx, r, expression, page(from, n/2))
		switch {
		case err != nil:
			return ""
		case failed != nil:
			n /= 2
		default:
			from, n = from+n/2, n-n/2
		}
	}
	var key string
	err := pgsql.ReadTx(ctx, s.db, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &key, fmt.Sprintf("select %s from (%s) as prescient_row", r.KeyText(""), page(from, 1)))
	})
	if err != nil {
		return ""
	}
	return " for row " + key
}
