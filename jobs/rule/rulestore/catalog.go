package rulestore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/sqltext"
	"github.com/prescient-go/prescient/jobs/rule"
	pgsql "github.com/prescient-go/prescient/sql"
)

// table is what the catalog says about a table.
type table struct {
	OID         int64  `db:"oid"`
	Relation    string `db:"relation"`
	Namespace   string `db:"namespace"`
	Name        string `db:"name"`
	Kind        string `db:"kind"`
	Partition   bool   `db:"partition"`
	Persistence string `db:"persistence"`
	Parent      bool   `db:"parent"`
	// PartitionKey is such as RANGE (placed_at). Empty: the table has no partitions.
	PartitionKey string `db:"partition_key"`
	rights

	columns []column
	meant   func(typed string, names []string) string // nil: similar names are not looked for
}

// partitioned reports whether the table has partitions. Triggers with transition tables do not see
// what is written to a partition directly.
func (t table) partitioned() bool { return t.Kind == "p" }

type column struct {
	Name       string `db:"name"`
	Number     int64  `db:"number"`
	Type       string `db:"type"`
	Required   bool   `db:"required"`
	Identifies bool   `db:"identifies"`
	Steady     bool   `db:"steady"`
	// Base is the type without domains, as SQL. Own tells that PostgreSQL has it itself.
	Base string `db:"base"`
	Own  bool   `db:"own"`
	Enum bool   `db:"enum"`
}

// instants reports whether the type is timestamptz, with any precision.
func (c column) instants() bool {
	return strings.HasPrefix(c.Type, "timestamp") && strings.HasSuffix(c.Type, " with time zone")
}

// understood is a rule with what the catalog says about its table.
type understood struct {
	rule.Applied
	table table
}

// errUndo rolls a transaction back that has done its work.
var errUndo = errors.New("undo")

// Understand asks the catalog what a rule of a file means, for a login that may read the table. It
// returns the mistakes of the rule as Problems, or a RightsError, joined, and changes nothing.
// Statements of steps may name what does not exist yet.
func (s *Store) Understand(ctx context.Context, file rule.File, asked rule.Rule) (rule.Applied, error) {
	u, err := s.understand(ctx, file, resolver{store: s, rule: asked, reading: true})
	return u.Applied, err
}

// understand asks the catalog about a rule.
func (s *Store) understand(ctx context.Context, file rule.File, r resolver) (u understood, err error) {
	asked := r.rule
	err = pgsql.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
		r.tx, r.problems = tx, nil
		if _, err := tx.ExecContext(ctx, rule.UnderstandSettings); err != nil {
			return err
		}
		if u, err = r.resolve(ctx); err != nil {
			return err
		}
		return errUndo
	})
	if !errors.Is(err, errUndo) {
		return u, fmt.Errorf("ask the catalog about rule %s: %w", asked.Name, err)
	}
	for _, step := range asked.Steps {
		if step.Calendar == "" {
			continue
		}
		if u.Calendars == nil {
			u.Calendars = map[string]rule.Calendar{}
		}
		u.Calendars[step.Calendar] = file.Calendars[step.Calendar]
	}
	return u, errors.Join(r.problems...)
}

// resolver asks the catalog about one rule.
type resolver struct {
	store    *Store
	rule     rule.Rule
	reading  bool // the login creates no triggers
	tx       *sqlx.Tx
	problems []error
}

func (r *resolver) wrong(field, format string, args ...any) {
	r.problems = append(r.problems, r.rule.Problem(field, format, args...))
}

func (r *resolver) resolve(ctx context.Context) (understood, error) {
	u := understood{Applied: rule.Applied{Rule: r.rule}}
	if r.store.cfg.Reserved != nil && r.store.cfg.Reserved(r.rule.Name) {
		r.wrong("name", "a job of this binary has the name: give the rule another one")
	}
	found, err := r.findTable(ctx, &u.table)
	if err != nil || !found {
		return u, err
	}
	u.Relation = u.table.Relation
	u.Rule.Entity = cmp.Or(u.Rule.Entity, u.table.Name)
	u.table.meant = r.store.cfg.Meant
	key, since := r.key(u.table), r.since(u.table)
	if key == nil || since == nil {
		return u, nil
	}
	u.Key, u.KeyType, u.Since = pq.QuoteIdentifier(key.Name), key.Base, pq.QuoteIdentifier(since.Name)
	reads := []int64{key.Number, since.Number}
	if err := r.copyTable(ctx, u.table); err != nil {
		return u, err
	}
	where, more, err := r.condition(ctx, "where", cmp.Or(r.rule.Where, "true"), u.table)
	if err != nil {
		return u, err
	}
	u.About = fmt.Sprintf("%s and isfinite(%s) and %[2]s >= timestamptz '%s' and %[2]s < timestamptz '%[4]s'", where,
		u.Since, firstSince, lastSince)
	reads = append(reads, more...)
	if more, err = r.done(ctx, &u); err != nil {
		return u, err
	}
	reads = append(reads, more...)
	for _, c := range u.table.columns {
		if slices.Contains(reads, c.Number) {
			u.Reads = append(u.Reads, pq.QuoteIdentifier(c.Name))
		}
	}
	u.Payload = r.payload(u.table)
	return u, r.role(ctx, u)
}

// firstSince and lastSince bound the instants from which delays count. One before the first or from the
// last on stands for never.
const (
	firstSince = "0001-01-01 00:00:00+00"
	lastSince  = "2200-01-01 00:00:00+00"
)

// findTable finds the table, and refuses one that cannot have a rule.
func (r *resolver) findTable(ctx context.Context, t *table) (found bool, err error) {
	parts, err := rule.ParseName(r.rule.Table)
	switch {
	case err != nil:
		r.wrong("table", "%v", err)
		return false, nil
	case len(parts) > 2:
		r.wrong("table",
			"%s has three parts: a rule is about a table of the database that it is applied to, such as shop.orders",
			r.rule.Table)
		return false, nil
	}
	var schema any
	if len(parts) == 2 {
		schema = parts[0]
	}
	err = r.tx.GetContext(ctx, t, pgsql.RuleTable.In(r.store.schema), schema, parts[len(parts)-1],
		pgsql.Rules.In(r.store.schema), pgsql.Operator.In(r.store.schema))
	if errors.Is(err, sql.ErrNoRows) {
		r.wrong("table", "there is no table %s in this database", r.rule.Table)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	problem, foreign := "", t.foreign(r.store.schema, !r.reading)
	switch {
	case t.Kind != "r" && t.Kind != "p":
		problem = "is not a table: name the table that it shows"
	case t.Partition:
		problem = "is a partition: name the table that it is a part of"
	case t.Persistence == "t":
		problem = "is temporary"
	case t.Parent:
		problem = "has tables that inherit from it, whose rows its triggers do not see"
	}
	if problem != "" {
		r.wrong("table", "%s %s", r.rule.Table, problem)
		return false, nil
	}
	if foreign != "" {
		r.wrong("table", "%s", foreign)
		return false, nil
	}
	if grants := t.missing(r.store.schema, *t, !r.reading); len(grants) > 0 {
		lacks := &RightsError{
			Line: r.rule.Line, Rule: r.rule.Name, Table: t.Relation, Login: t.Login, Grants: grants,
		}
		if t.Roles && !t.Operates && !r.reading {
			lacks.Role = pgsql.Operator.In(r.store.schema)
		}
		r.problems = append(r.problems, lacks)
		return false, nil
	}
	return true, r.tx.SelectContext(ctx, &t.columns, pgsql.RuleColumns.In(r.store.schema), t.OID)
}

// column finds a column of the table by a name of SQL.
func (t table) column(name string) (c *column, err error) {
	parts, err := rule.ParseName(name)
	if err != nil {
		return nil, err
	}
	for i := range t.columns {
		if len(parts) == 1 && t.columns[i].Name == parts[0] {
			return &t.columns[i], nil
		}
	}
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.Name
	}
	text := ""
	if t.meant != nil {
		text = t.meant(parts[len(parts)-1], slices.Clone(names))
	}
	return nil, fmt.Errorf("table %s has no column %s%s", t.Relation, name, cmp.Or(text, ": it has "+spoken.List(names)))
}

func (r *resolver) key(t table) *column {
	c, err := t.column(r.rule.Key)
	switch {
	case err != nil:
		r.wrong("key", "%v", err)
		return nil
	case !c.Identifies && t.partitioned():
		r.wrong("key", "column %s has no unique constraint of its own, which PostgreSQL requires to contain the partition "+
			"key of table %s, %s. Partition the table by %[1]s, or let a query of sql_jobs find the rows: a rule needs a "+
			"column that identifies a row in all partitions", r.rule.Key, t.Relation, t.PartitionKey)
	case !c.Identifies:
		r.wrong("key",
			"column %s has no primary key and no unique constraint of its own: name a column that identifies a row", r.rule.Key)
	case !c.Required:
		r.wrong("key", "column %s may be null: name a column that is not null", r.rule.Key)
	case c.Enum:
		r.wrong("key", "type %s is an enum, whose values may get other names: name a column such as a number, a text or a "+
			"uuid", c.Type)
	case !c.Own:
		r.wrong("key", "type %s is not one of PostgreSQL's own, and may compare its values in another way than the checks: "+
			"name a column such as a number, a text or a uuid", c.Type)
	case !c.Steady:
		r.wrong("key",
			"the text of type %s depends on settings of the session: name a column such as a number, a text or a uuid", c.Type)
	}
	return c
}

func (r *resolver) since(t table) *column {
	c, err := t.column(r.rule.Since)
	switch {
	case err != nil:
		r.wrong("since", "%v", err)
		return nil
	case !c.instants():
		r.wrong("since", "column %s is of type %s: name a column of type timestamptz", r.rule.Since, c.Type)
	}
	return c
}

// done reads Rule.Done.
func (r *resolver) done(ctx context.Context, u *understood) (reads []int64, err error) {
	c, missing := u.table.column(r.rule.Done)
	switch {
	case missing != nil || c.Type == "boolean":
		u.Done, reads, err = r.condition(ctx, "done", r.rule.Done, u.table)
		return reads, err
	case c.instants():
		u.DoneAt = true
		u.Done = pq.QuoteIdentifier(c.Name)
	default:
		r.wrong("done", "column %s is of type %s: name a column of type timestamptz, or a condition such as %s is not null",
			r.rule.Done, c.Type, r.rule.Done)
	}
	return []int64{c.Number}, nil
}

func (r *resolver) payload(t table) (columns []string) {
	for i, name := range r.rule.Payload {
		c, err := t.column(name)
		if err != nil {
			r.wrong(fmt.Sprintf("payload[%d]", i+1), "%v", err)
			continue
		}
		columns = append(columns, pq.QuoteIdentifier(c.Name))
	}
	return columns
}

// role refuses a role that cannot read what the rule reads.
func (r *resolver) role(ctx context.Context, u understood) error {
	if r.rule.Role == "" {
		return nil
	}
	var names []string
	for _, column := range slices.Concat(u.Reads, u.Payload) {
		for _, c := range u.table.columns {
			if pq.QuoteIdentifier(c.Name) == column && !slices.Contains(names, c.Name) {
				names = append(names, c.Name)
			}
		}
	}
	var there bool
	var unread pq.StringArray
	err := pgsql.One(ctx, r.tx, pgsql.RuleRole.In(r.store.schema), []any{r.rule.Role, u.table.OID, pq.Array(names)},
		&there, &unread)
	switch {
	case err != nil:
		return err
	case !there:
		r.wrong("role", "there is no role %s", r.rule.Role)
	case len(unread) > 0:
		r.wrong("role", "role %s may not read %s of %s: grant usage on its schema, and select on the columns", r.rule.Role,
			spoken.List(unread), u.Relation)
	}
	return nil
}

// copyTable makes an empty copy of the table, whose checks tell what conditions mean.
func (r *resolver) copyTable(ctx context.Context, t table) error {
	_, err := r.tx.ExecContext(ctx,
		fmt.Sprintf("create temporary table pg_temp.%s (like %s)", pq.QuoteIdentifier(t.Name), t.Relation))
	return err
}

// condition returns a condition as the server understands it, and the numbers of the columns that
// it reads. The server itself refuses subqueries, aggregates and what is not boolean.
func (r *resolver) condition(
	ctx context.Context, field, text string, t table,
) (canonical string, reads []int64, err error) {
	if err := r.addCheck(ctx, field, text, t); err != nil || len(r.problems) > 0 {
		return "", nil, err
	}
	var found struct {
		Text    string        `db:"text"`
		Columns pq.Int64Array `db:"columns"`
	}
	var path string
	copied := "pg_temp." + pq.QuoteIdentifier(t.Name)
	err = r.tx.GetContext(ctx, &path, "select current_setting('search_path')")
	if err == nil {
		_, err = r.tx.ExecContext(ctx, "select set_config('search_path', 'pg_catalog, pg_temp', true)")
	}
	if err == nil {
		err = r.tx.GetContext(ctx, &found, pgsql.RuleCondition.In(r.store.schema), copied, conditionName+field)
	}
	if err != nil {
		return "", nil, err
	}
	err = r.refused(ctx, field, found.Text, t)
	if err != nil {
		return "", nil, err
	}
	_, err = r.tx.ExecContext(ctx, "select set_config('search_path', $1, true)", path)
	return "(" + found.Text + ")", found.Columns, err
}

// refused refuses an expression that could run something else later. A function of the copy tells what it
// runs.
func (r *resolver) refused(ctx context.Context, field, expression string, t table) error {
	copied := "pg_temp." + pq.QuoteIdentifier(t.Name)
	function := fmt.Sprintf("pg_temp.%s%s", conditionName, field)
	if _, err := r.tx.ExecContext(ctx, "savepoint "+conditionName); err != nil {
		return err
	}
	_, err := r.tx.ExecContext(ctx, fmt.Sprintf(`create function %s(prescient_row %s) returns boolean language sql
		begin atomic select %s from (select (prescient_row).*) as prescient_columns; end`, function, copied, expression))
	if refused, ok := errors.AsType[*pq.Error](err); ok {
		r.wrong(field, "a condition is about columns of the row: %s", refused.Message)
		_, err = r.tx.ExecContext(ctx, "rollback to "+conditionName)
		return err
	}
	if err != nil || r.store.client == nil {
		return err
	}
	var problem sql.NullString
	args := []any{fmt.Sprintf("%s(%s)", function, copied), nil}
	if t.Roles {
		args[1] = pgsql.Rules.In(r.store.schema)
	}
	err = pgsql.One(ctx, r.tx, pgsql.RuleRefused.In(r.store.schema), args, &problem)
	if problem.Valid {
		r.wrong(field, "%s", problem.String)
	}
	return err
}

// conditionName begins the names of the checks of the copy, and of its functions.
const conditionName = "prescient_rule_"

// addCheck adds a condition to the copy as a check. What the server says against it is a problem of
// the rule.
func (r *resolver) addCheck(ctx context.Context, field, text string, t table) error {
	const again = "prescient_rule"
	if !sqltext.Closed(text) {
		r.wrong(field, "a parenthesis is closed that the condition has not opened: write one whole condition")
		return nil
	}
	if _, err := r.tx.ExecContext(ctx, "savepoint "+again); err != nil {
		return err
	}
	statement := fmt.Sprintf("alter table pg_temp.%s add constraint %s%s check ((\n%s\n))", pq.QuoteIdentifier(t.Name),
		conditionName, field, text)
	// A prepared statement is only one.
	stmt, err := r.tx.PrepareContext(ctx, statement)
	if err == nil {
		defer func() { _ = stmt.Close() }()
		_, err = stmt.ExecContext(ctx)
	}
	refused, ok := errors.AsType[*pq.Error](err)
	if !ok {
		return err
	}
	r.wrong(field, "%s", strings.ReplaceAll(explain(refused), "check constraint", "a condition"))
	_, err = r.tx.ExecContext(ctx, "rollback to "+again)
	return err
}
