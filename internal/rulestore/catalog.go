package rulestore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulesession"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/sqltext"
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
	// Uniques has the numbers of the columns of each unique constraint, such as "1 2".
	Uniques pq.StringArray `db:"uniques"`
	rights

	columns []column
}

// partitioned reports whether the table has partitions. Triggers with transition tables do not see
// what is written to a partition directly.
func (t table) partitioned() bool { return t.Kind == "p" }

type column struct {
	Name     string `db:"name"`
	Number   int64  `db:"number"`
	Type     string `db:"type"`
	Required bool   `db:"required"`
	Steady   bool   `db:"steady"`
	// Declared is the type as SQL, without a length, and with a collation of the column's own. Base is the type without
	// domains. Own tells that PostgreSQL has Base itself.
	Declared string `db:"declared"`
	Base     string `db:"base"`
	Own      bool   `db:"own"`
	Enum     bool   `db:"enum"`
	// Virtual is the expression of a column whose value is not stored, and which triggers see as null.
	Virtual sql.NullString `db:"virtual"`
}

// understood is a rule with what the catalog says about its table.
type understood struct {
	rule.Applied
	table table
	// numbers are those of the columns of the key, which keep them when they are renamed.
	numbers []int64
	// zone says in what the zone data of this binary and of the server differ. Empty: in nothing.
	zone string
	// others has the columns of Reads that not only since reads.
	others []string
	// looked has the tables that expressions look up.
	looked []string
	// mixed has warnings of expressions that read values without a time zone by the clocks of UTC.
	mixed []string
	// plain tells that what the triggers compute depends on no setting of a session but the time zone.
	plain bool
}

// errUndo rolls a transaction back that has done its work.
var errUndo = errors.New("undo")

// trial runs fn in a transaction with settings and a role, and leaves nothing of it. It does not run fn if this login
// is no member of the role: only the login of the runs needs to be one.
func (s *Store) trial(ctx context.Context, settings, role string, fn func(tx *sqlx.Tx) error) error {
	err := pgsql.InTx(ctx, s.db, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, settings); err != nil {
			return err
		}
		if role != "" {
			_, err := tx.ExecContext(ctx, "set local role "+pq.QuoteIdentifier(role))
			if _, refused := errors.AsType[*pq.Error](err); refused {
				return errUndo
			}
			if err != nil {
				return err
			}
		}
		return cmp.Or(fn(tx), errUndo)
	})
	if errors.Is(err, errUndo) {
		return nil
	}
	return err
}

// Understand asks the catalog what a rule of a file means, for a login that may read the table. It
// returns the mistakes of the rule as Problems, or a RightsError, joined, and changes nothing.
// Statements of steps may name what does not exist yet.
func (s *Store) Understand(ctx context.Context, file rule.File, asked rule.Rule) (rule.Applied, error) {
	u, err := s.understand(ctx, file, resolver{store: s, rule: asked, reading: true})
	return u.Applied, err
}

// Mistakes returns the mistakes that the database tells of the rules of a file. known are those that were found when
// the file was read: mistakes that may follow from them are left out.
func (s *Store) Mistakes(ctx context.Context, file rule.File, known []*rule.Problem) (list []error) {
	for _, asked := range file.Rules {
		if asked.Table == "" || len(asked.Key) == 0 { // known, and nothing else can be found out
			continue
		}
		u, err := s.understand(ctx, file, resolver{store: s, rule: asked, reading: true})
		if u.KeyType != nil {
			err = errors.Join(err, s.statements(ctx, u))
		}
		for _, found := range rule.Problems(err) {
			if !slices.ContainsFunc(known, func(p *rule.Problem) bool { return p.Hides(found) }) {
				list = append(list, found)
			}
		}
	}
	return list
}

// understand asks the catalog about a rule.
func (s *Store) understand(ctx context.Context, file rule.File, r resolver) (u understood, err error) {
	asked := r.rule
	err = s.trial(ctx, rulesession.Understand, "", func(tx *sqlx.Tx) (err error) {
		r.tx, r.problems = tx, nil
		u, err = r.resolve(ctx)
		return err
	})
	if err != nil {
		return u, fmt.Errorf("ask the catalog about rule %s: %w", asked.Name, err)
	}
	for name, calendar := range file.Calendars {
		if !slices.ContainsFunc(asked.Steps, func(s rule.Step) bool { return s.Calendar == name || s.CalendarName != "" }) {
			continue
		}
		if u.Calendars == nil {
			u.Calendars = map[string]rule.Calendar{}
		}
		u.Calendars[name] = calendar
	}
	zone, refused, err := s.zone(ctx, asked.Timezone)
	if u.zone = zone; refused {
		r.wrong("timezone", "%s", zone)
	}
	return u, errors.Join(append(r.problems, err)...)
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
	found, err := r.findTable(ctx, "table", r.rule.Table, &u.table)
	if err != nil || !found {
		return u, err
	}
	u.Relation = u.table.Relation
	u.Rule.Entity = cmp.Or(u.Rule.Entity, u.table.Name)
	key := r.key(u.table)
	if key == nil {
		return u, nil
	}
	u.plain = true
	for _, c := range key {
		u.plain = u.plain && plainKey.MatchString(c.Base)
		u.Key, u.KeyType = append(u.Key, pq.QuoteIdentifier(c.Name)), append(u.KeyType, c.Base)
		u.numbers = append(u.numbers, c.Number)
	}
	if err := r.facts(ctx, &u); err != nil {
		return u, err
	}
	u.Payload = r.payload(u.table)
	if err := r.values(ctx, &u); err != nil {
		return u, err
	}
	if err := r.also(ctx, &u, key); err != nil {
		return u, err
	}
	return u, r.role(ctx, u)
}

// plainKey matches the types of keys whose texts depend on no setting of a session.
var plainKey = regexp.MustCompile(`^(?:smallint|integer|bigint|numeric|uuid|boolean|text|character varying)\b`)

// findTable finds the table that a field names, and refuses one that cannot have the triggers of a rule.
func (r *resolver) findTable(ctx context.Context, field, name string, t *table) (found bool, err error) {
	parts, err := rule.ParseName(name)
	switch {
	case err != nil:
		r.wrong(field, "%v", err)
		return false, nil
	case len(parts) > 2:
		r.wrong(field,
			"%s has three parts: a rule is about a table of the database that it is applied to, such as shop.orders",
			name)
		return false, nil
	}
	var schema any
	if len(parts) == 2 {
		schema = parts[0]
	}
	err = r.tx.GetContext(ctx, t, pg.RuleTable.In(r.store.schema), schema, parts[len(parts)-1],
		pg.Rules.In(r.store.schema), pg.Operator.In(r.store.schema))
	if errors.Is(err, sql.ErrNoRows) {
		instead, err := r.store.otherTable(ctx, r.tx, strings.Join(parts[:len(parts)-1], "."), parts[len(parts)-1])
		r.wrong(field, "there is no table %s in this database%s", name, instead)
		return false, err
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
	case t.Name == "old" || t.Name == "new":
		problem = "cannot have a rule, because PostgreSQL gives the name " + t.Name + " to rows of triggers: rename the table"
	}
	if problem != "" {
		r.wrong(field, "%s %s", name, problem)
		return false, nil
	}
	if foreign != "" {
		r.wrong(field, "%s", foreign)
		return false, nil
	}
	if grants := t.missing(r.store.schema, *t, !r.reading); len(grants) > 0 {
		lacks := &RightsError{
			Line: r.rule.Line, Rule: r.rule.Name, Table: t.Relation, Login: t.Login, Grants: grants,
		}
		if t.Roles && !t.Operates && !r.reading {
			lacks.Role = pg.Operator.In(r.store.schema)
		}
		r.problems = append(r.problems, lacks)
		return false, nil
	}
	return true, r.tx.SelectContext(ctx, &t.columns, pg.RuleColumns.In(r.store.schema), t.OID)
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
	typed, text := parts[len(parts)-1], ""
	if i := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, typed) }); i >= 0 {
		text = fmt.Sprintf(": write '%s', because SQL reads a name without double quotes in lower case, and YAML takes the "+
			"outer quotes", quoted(names[i]))
	} else {
		text = spoken.Meant(typed, names)
	}
	return nil, fmt.Errorf("table %s has no column %s%s", t.Relation, name, cmp.Or(text, ": it has "+spoken.List(names)))
}

// quoted returns a name as SQL, whose parts have double quotes if they need them.
func quoted(name string) string {
	parts := strings.Split(name, ".")
	for i, part := range parts {
		parts[i] = sqltext.QuoteName(part)
	}
	return strings.Join(parts, ".")
}

// key returns the columns of the key. Nil: the table has no such column.
func (r *resolver) key(t table) (columns []column) {
	for _, name := range r.rule.Key {
		c, err := t.column(name)
		if err != nil {
			if strings.Contains(name, ",") {
				err = fmt.Errorf("%q is no column. Write several columns as a list: key: [%s]", name, strings.Trim(name, "() "))
			}
			r.wrong("key", "%v", err)
			return nil
		}
		columns = append(columns, *c)
	}
	r.identifies(t, columns)
	for i, c := range columns {
		name := r.rule.Key[i]
		switch {
		case !c.Required:
			r.wrong("key", "column %s may be null: name a column that is not null", name)
		case c.Enum:
			r.wrong("key", "type %s is an enum, whose values may get other names: name a column such as a number, a text or a "+
				"uuid", c.Type)
		case !c.Own:
			r.wrong("key", "type %s is not one of PostgreSQL's own, and may compare its values in another way than the "+
				"checks: name a column such as a number, a text or a uuid", c.Type)
		case !c.Steady:
			r.wrong("key", "the text of type %s depends on settings of the session: name a column such as a number, a text "+
				"or a uuid", c.Type)
		}
	}
	return columns
}

// identifies refuses columns that no unique constraint of the table has, in the order of the key: an apply reads the
// table by its index.
func (r *resolver) identifies(t table, columns []column) {
	numbers := make([]string, len(columns))
	for i, c := range columns {
		numbers[i] = strconv.FormatInt(c.Number, 10)
	}
	if slices.Contains(t.Uniques, strings.Join(numbers, " ")) {
		return
	}
	subject, own := fmt.Sprintf("column %s has", r.rule.Key), "its own"
	if len(columns) > 1 {
		subject, own = fmt.Sprintf("columns %s have", r.rule.Key), "their own"
	}
	switch other := t.unique(numbers); {
	case other != "":
		r.wrong("key", "%s no primary key and no unique constraint of %s: write key: %s, by which table %s identifies a row",
			subject, own, other, t.Relation)
	case t.partitioned():
		r.wrong("key", "%s no unique constraint of %s, which PostgreSQL requires to contain the partition key of table %s, "+
			"%s. Add one, and write the list of its columns, such as key: [id, placed_on]", subject, own, t.Relation,
			t.PartitionKey)
	default:
		r.wrong("key", "%s no primary key and no unique constraint of %s: name a column that identifies a row alone, or "+
			"the list of columns that do so together, such as key: [order_id, line]", subject, own)
	}
}

// unique returns the columns of a unique constraint that has some of those with numbers alone, or all of them and
// others, as the value of field key. It returns an empty text if there is no such constraint.
func (t table) unique(numbers []string) string {
	within := func(some, all []string) bool {
		return !slices.ContainsFunc(some, func(n string) bool { return !slices.Contains(all, n) })
	}
	i := slices.IndexFunc(t.Uniques, func(u string) bool { return within(strings.Fields(u), numbers) })
	if i < 0 {
		i = slices.IndexFunc(t.Uniques, func(u string) bool { return within(numbers, strings.Fields(u)) })
	}
	if i < 0 {
		return ""
	}
	var names []string
	for _, number := range strings.Fields(t.Uniques[i]) {
		of := slices.IndexFunc(t.columns, func(c column) bool { return strconv.FormatInt(c.Number, 10) == number })
		if of < 0 { // an expression
			return ""
		}
		names = append(names, quoted(t.columns[of].Name))
	}
	if len(names) == 1 {
		return names[0]
	}
	return "[" + strings.Join(names, ", ") + "]"
}

func (r *resolver) payload(t table) (columns []string) {
	for i, name := range r.rule.Payload {
		field := fmt.Sprintf("payload[%d]", i+1)
		if _, err := rule.ParseName(name); err != nil {
			r.wrong(field, "%q is not the name of a column: give an expression a name, such as {title: \"(select ...)\"}",
				name)
			continue
		}
		c, err := t.column(name)
		if err != nil {
			r.wrong(field, "%v", err)
			continue
		}
		columns = append(columns, pq.QuoteIdentifier(c.Name))
	}
	return columns
}

// values asks the server what the expressions of the payload mean. Checks alone read them.
func (r *resolver) values(ctx context.Context, u *understood) error {
	looked := u.looked // the rule does not wait for what they look up
	for _, v := range r.rule.Values {
		field := "payload." + v.Name
		for name := range r.rule.Lines {
			if strings.HasPrefix(name, "payload[") && strings.HasSuffix(name, "]."+v.Name) {
				field = name
			}
		}
		var reads reading
		e, err := r.expression(ctx, field, v.SQL, u, &reads, func(expr.Type) bool { return true }, "a value")
		if err != nil {
			return err
		}
		u.Values = append(u.Values, rule.Value{Name: v.Name, SQL: e.SQL})
	}
	u.looked = looked
	return nil
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
	err := pg.One(ctx, r.tx, pg.RuleRole.In(r.store.schema), []any{r.rule.Role, u.table.OID, pq.Array(names)},
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
