package rulestore

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/sqltext"
)

// facts asks the server what the expressions of the rule mean.
func (r *resolver) facts(ctx context.Context, u *understood) error {
	if err := r.copyTable(ctx, u.table); err != nil {
		return err
	}
	f := &u.Facts
	f.Zone = r.rule.Timezone
	reads := reading{row: slices.Clone(u.numbers), others: slices.Clone(u.numbers)}
	const instant = "an instant of type timestamptz, timestamp or date"
	for _, field := range []struct {
		name  string
		texts []string
		into  *[]expr.Expr
		want  func(t expr.Type) bool
		form  string
	}{
		{"since", r.rule.Since, &f.Since, expr.Type.When, instant},
		{"done", r.rule.Done, &f.Done, isDone, "a condition, or " + instant},
		{"where", r.rule.Where, &f.Where, isTruth, "a condition"},
		{"pause", r.rule.Pause, &f.Pause, isTruth, "a condition"},
	} {
		for i, whole := range field.texts {
			at := rule.Entry(field.name, i, len(field.texts))
			if names, changes := changed(whole); changes && field.name == "since" {
				r.changed(at, names, u, &reads)
				continue
			} else if field.name == "since" && changedPart.MatchString(whole) {
				r.wrong(at, "changed(...) stands alone: write a list, such as since: [placed_at, changed(status)]")
				continue
			}
			for _, text := range parts(field.name, whole) {
				e, err := r.expression(ctx, at, text, u, &reads, field.want, field.form)
				if err != nil {
					return err
				}
				r.local(at, text, e)
				*field.into = append(*field.into, e)
			}
		}
	}
	if err := r.held(ctx, u, &reads); err != nil {
		return err
	}
	if slices.ContainsFunc(f.Pause, func(e expr.Expr) bool { return e.Lookup }) {
		r.wrong("pause", "is about columns of the row alone: nothing tells when what it looks up in another table has "+
			"changed. Let the application keep it in a column")
	}
	if r.rule.AtOnce && slices.ContainsFunc(f.Done, func(e expr.Expr) bool { return e.Lookup }) {
		r.wrong("cancel", "at-once needs to know of it when the row is written: done reads other tables, so leave out cancel")
	}
	if len(r.rule.Also) > 0 && len(u.looked) == 0 {
		r.wrong("also", "no expression of the rule reads another table: leave it out")
	}
	switch recovers := r.rule.Recovered != (rule.Act{}); {
	case r.rule.Recheck.Duration == 0 || f.SinceMoves() || recovers && f.EndLookup():
	case recovers:
		r.wrong("recheck", "is for a since or a done that another table can change: leave it out")
	default:
		r.wrong("recheck", "is for a since that another table can move: leave it out")
	}
	reads.columns(u)
	u.others = reads.notSince(u.table)
	return nil
}

// held asks what the expressions of steps mean that the data of a row hold.
func (r *resolver) held(ctx context.Context, u *understood, reads *reading) error {
	const span, name = "an interval, such as make_interval(days => hold_days)", "a text, the name of "
	if zone := r.rule.TimezoneName; zone != "" {
		e, err := r.expression(ctx, "timezone", zone, u, reads, isText, name+"a time zone")
		if err != nil {
			return err
		}
		u.Facts.Timezone = e
	}
	for i, step := range r.rule.Steps {
		for _, of := range []struct {
			name, text string
			into       *[]expr.Expr
			want       func(t expr.Type) bool
			form       string
		}{
			{"after", step.Interval, &u.Facts.After, isSpan, span},
			{"every", step.EveryInterval, &u.Facts.Every, isSpan, span},
			{"times", step.TimesCount, &u.Facts.Times, isCount, "a whole number"},
			{"calendar", step.CalendarName, &u.Facts.Calendar, isText, name + "a calendar of the file"},
		} {
			if of.text == "" {
				continue
			}
			if *of.into == nil {
				*of.into = make([]expr.Expr, len(r.rule.Steps))
			}
			e, err := r.expression(ctx, fmt.Sprintf("steps[%d].%s", i+1, of.name), of.text, u, reads, of.want, of.form)
			if err != nil {
				return err
			}
			(*of.into)[i] = e
		}
	}
	return nil
}

// changedText matches since: changed(status).
var changedText = regexp.MustCompile(`(?is)^changed\s*\((.*)\)$`)

// changedPart matches changed(...) within an expression.
var changedPart = regexp.MustCompile(`(?i)(?:^|[^.\w"])changed\s*\(`)

// changed returns the names of the columns of since: changed(a, b).
func changed(text string) (names []string, ok bool) {
	found := changedText.FindStringSubmatch(text)
	if found == nil {
		return nil, false
	}
	return strings.Split(found[1], ","), true
}

// changed adds the columns whose last change lets the clock start.
func (r *resolver) changed(field string, names []string, u *understood, reads *reading) {
	if len(u.Facts.Changed) > 0 {
		r.wrong(field, "changed is there twice: write all columns into one, such as changed(status, stage)")
		return
	}
	for _, name := range names {
		c, err := u.table.column(strings.TrimSpace(name))
		switch {
		case err != nil:
			r.wrong(field, "changed takes columns of the table: %v", err)
		case c.Virtual.Valid:
			r.wrong(field, "column %s is virtual, and triggers do not see its value: name the columns that it reads", c.Name)
		default:
			u.Facts.Changed = append(u.Facts.Changed, pq.QuoteIdentifier(c.Name))
			reads.asks, reads.others = append(reads.asks, c.Number), append(reads.others, c.Number)
		}
	}
}

func isTruth(t expr.Type) bool { return t == expr.Truth }
func isSpan(t expr.Type) bool  { return t == expr.Span }
func isCount(t expr.Type) bool { return t == expr.Count }
func isText(t expr.Type) bool  { return t == expr.Text }
func isDone(t expr.Type) bool  { return t == expr.Truth || t.When() }

// parts divides a condition, so that what the row alone says is told apart from what must be looked up.
func parts(field, text string) []string {
	if field == "since" {
		return []string{text}
	}
	return expr.Split(text, field == "done" || field == "pause")
}

// reading has the numbers of the columns that expressions read: those that triggers compute, those that look up when
// and how long a row waits, and those that look up whether it is done or the rule is about it. others has those that
// not only since reads.
type reading struct{ row, asks, looks, enters, others []int64 }

// columns fills in Applied.Reads, Applied.Asks, Applied.Looks and Applied.Enters.
func (r reading) columns(u *understood) {
	for _, c := range u.table.columns {
		name, read := pq.QuoteIdentifier(c.Name), slices.Contains(r.row, c.Number)
		for _, of := range []struct {
			numbers []int64
			list    *[]string
		}{{r.asks, &u.Asks}, {r.looks, &u.Looks}, {r.enters, &u.Enters}} {
			if slices.Contains(of.numbers, c.Number) {
				*of.list, read = append(*of.list, name), true
			}
		}
		if read {
			u.Reads = append(u.Reads, name)
		}
	}
}

// virtual returns the first of some columns whose value is not stored, or nil.
func (t table) virtual(numbers []int64) *column {
	for i, c := range t.columns {
		if c.Virtual.Valid && slices.Contains(numbers, c.Number) {
			return &t.columns[i]
		}
	}
	return nil
}

// notSince returns the columns that not only since reads.
func (r reading) notSince(t table) (list []string) {
	for _, c := range t.columns {
		if slices.Contains(r.others, c.Number) {
			list = append(list, pq.QuoteIdentifier(c.Name))
		}
	}
	return list
}

// exprName begins the names of the views, of the functions and of the savepoint by which the server tells what an
// expression means.
const exprName = "prescient_rule"

// expression returns what an expression means, and adds the columns that it reads. What the server says against it is a
// problem of the rule.
func (r *resolver) expression(
	ctx context.Context, field, text string, u *understood, reads *reading, want func(expr.Type) bool, form string,
) (e expr.Expr, err error) {
	if names, err := rule.ParseName(text); err == nil && len(names) == 1 && strings.HasPrefix(field, "since") {
		if _, err := u.table.column(text); err != nil {
			r.wrong(field, "%v", err)
			return e, nil
		}
	}
	view := "pg_temp." + exprName
	statement := fmt.Sprintf("create temporary view %s as select (\n%s\n) as prescient_value from %s",
		exprName, text, u.Relation)
	refused, err := refusal(ctx, r.tx, true, statement)
	if err == nil && refused != nil {
		var why string
		why, err = r.store.words(ctx, r.tx, refusedText{text: text, statement: statement, refused: refused, table: u.table})
		r.wrong(field, "%s", why)
	}
	if err != nil || refused != nil {
		return e, err
	}
	var found struct {
		Text    string `db:"text"`
		Type    string `db:"type"`
		Lookup  bool   `db:"lookup"`
		Whole   bool   `db:"whole"`
		Several bool   `db:"several"`
		Itself  bool   `db:"itself"`
		// Unqualified is an operator of another schema in a form of SQL that has no place for it.
		Unqualified sql.NullString `db:"unqualified"`
		Columns     pq.Int64Array  `db:"columns"`
		Tables      pq.StringArray `db:"tables"`
		zoneless
	}
	err = r.named(ctx, func() error {
		return r.tx.GetContext(ctx, &found, pg.RuleExpression.In(r.store.schema), view, u.table.OID)
	})
	if err != nil {
		return e, err
	}
	e = expr.Expr{SQL: found.Text, Type: expr.TypeOf(found.Type), Lookup: found.Lookup}
	for _, t := range found.Tables {
		if e.Lookup && !slices.Contains(u.looked, t) {
			u.looked = append(u.looked, t)
		}
	}
	if field != "since" {
		reads.others = append(reads.others, found.Columns...)
	}
	misread := ""
	switch {
	case e.Lookup && found.Itself && !expr.Names(e.SQL, u.alias()):
		misread = fmt.Sprintf("the subquery reads table %s itself, and no column of the row: give the other rows a name, "+
			"such as from %[1]s other where other.id = %[2]s.id", u.Relation, u.table.Name)
	case e.Lookup:
		misread = u.misread(text, e, found.Columns)
	}
	frozen := expr.Frozen(text, e.SQL)
	switch err = undo(ctx, r.tx); {
	case err != nil:
		return e, err
	case !want(e.Type):
		r.wrong(field, "%s is of type %s: want %s%s", text, found.Type, form, hint(field, text, found.Type))
		return e, nil
	case found.Whole:
		r.wrong(field, "%s reads the row as a whole: name the columns that it is about", text)
		return e, nil
	case found.Several:
		r.wrong(field, "%s is about several rows: an expression is about one row of the table. Write a subquery to look "+
			"something up", text)
		return e, nil
	case misread != "":
		r.wrong(field, "%s", misread)
		return e, nil
	case frozen != "":
		r.wrong(field, "%s is an instant of now, which would be that of the apply, and a row is read only when it is "+
			"written and when a step is due. Count from an instant of the row instead, such as since: [created_at, "+
			"hold_until]", frozen)
		return e, nil
	case found.Unqualified.Valid:
		r.wrong(field, "is distinct from, nullif, case x when y, in (select ...) and join using cannot say that they "+
			"compare with operator %s: write x = y, or a cast such as x::text", found.Unqualified.String)
		return e, nil
	case u.table.virtual(found.Columns) != nil:
		c := u.table.virtual(found.Columns)
		r.wrong(field, "column %s is virtual, and triggers do not see its value: write its expression instead, %s, or "+
			"make it a stored column", c.Name, c.Virtual.String)
		return e, nil
	}
	r.mixes(field, text, found.zoneless, found.Columns, e.Lookup, u)
	switch {
	case strings.HasPrefix(field, "payload"): // no trigger reads it
	case r.isChecked(field): // no trigger computes it
		reads.asks = append(reads.asks, found.Columns...)
	case !e.Lookup:
		reads.row = append(reads.row, found.Columns...)
		return e, r.refused(ctx, field, e, found.Type, u)
	case strings.HasPrefix(field, "since") || strings.HasPrefix(field, "steps"):
		reads.asks = append(reads.asks, found.Columns...)
	case strings.HasPrefix(field, "where"):
		reads.enters = append(reads.enters, found.Columns...)
	default:
		reads.looks = append(reads.looks, found.Columns...)
	}
	return e, nil
}

// isChecked reports whether checks alone compute a field, and no trigger: how a step repeats, its calendar and its
// clocks, and a delay that counts by clocks that the data of the row name.
func (r *resolver) isChecked(field string) bool {
	step, of, _ := strings.Cut(field, ".")
	return strings.HasPrefix(step, "steps[") && (of != "after" || r.rule.TimezoneName != "") || field == "timezone"
}

// local refuses a value without a time zone if the data of a row name the zone: SQL would have to read it by the clocks
// of each row.
func (r *resolver) local(field, text string, e expr.Expr) {
	if r.rule.TimezoneName == "" || e.Type != expr.Local && e.Type != expr.Date {
		return
	}
	r.wrong(field, "%s has no time zone, and each row has a zone of its own: write %s::timestamp at time zone %s", text,
		enclosed(text), enclosed(r.rule.TimezoneName))
}

// enclosed returns an expression as an operand.
func enclosed(text string) string {
	if sqltext.IsPlainName(text) {
		return text
	}
	return "(" + text + ")"
}

// zoneless has the types without a time zone of which an expression makes an instant, and those that it makes of one.
type zoneless struct {
	Local pq.StringArray `db:"local"`
	Made  pq.StringArray `db:"made"`
}

// mixes warns of an expression in which the server itself makes an instant of a value without a time zone, or such a
// value of an instant, because types are mixed. It does so by the zone of the session, which is UTC for all rules. If
// the data of a row name the zone, the expression is refused. columns are those of the row that it reads.
func (r *resolver) mixes(
	field, text string, is zoneless, columns pq.Int64Array, lookup bool, u *understood,
) {
	zone, because := pq.QuoteLiteral(r.rule.Timezone), "not by those of timezone"
	if r.rule.TimezoneName != "" {
		zone, because = enclosed(r.rule.TimezoneName), "each row has a zone of its own"
	} else if r.rule.Timezone == "" || r.rule.Timezone == "UTC" {
		return
	}
	what := ""
	switch {
	case strings.HasPrefix(field, "payload") || len(is.Local)+len(is.Made) == 0:
		return
	case len(is.Local) > 0:
		value, operand := "a "+plainType(is.Local[0]), "(...)"
		if names := u.table.ofType(is.Local[0], columns); len(names) == 1 && !lookup {
			value, operand = names[0], names[0]
		}
		what = fmt.Sprintf("reads %s by the clocks of UTC, and %s: write %s::timestamp at time zone %s",
			value, because, operand, zone)
	default:
		what = fmt.Sprintf("makes a %s of an instant by the clocks of UTC, and %s: write (... at time zone %s)::%[1]s",
			plainType(is.Made[0]), because, zone)
	}
	problem := r.rule.Problem(field, "%s %s", text, what)
	if r.rule.TimezoneName != "" {
		r.problems = append(r.problems, problem)
		return
	}
	problem.Rule = ""
	u.mixed = append(u.mixed, problem.Error())
}

// plainType returns the short name of a type without a time zone.
func plainType(name string) string { return strings.TrimSuffix(name, " without time zone") }

// ofType returns those of some columns that have a type of the kind of another one.
func (t table) ofType(name string, numbers []int64) (names []string) {
	for _, c := range t.columns {
		if slices.Contains(numbers, c.Number) && expr.TypeOf(c.Base) == expr.TypeOf(name) {
			names = append(names, quoted(c.Name))
		}
	}
	return names
}

// alias returns the name by which the server calls the row in an expression.
func (u understood) alias() string {
	if sqltext.IsPlainName(u.table.Name) {
		return u.table.Name
	}
	return pq.QuoteIdentifier(u.table.Name)
}

// misread says that a subquery reads a column of its own tables where it means that of the row. columns are those of
// the row that the expression reads. Empty: it does not.
func (u understood) misread(text string, e expr.Expr, columns pq.Int64Array) string {
	column, does, otherwise := "", "reads no column of the row", ", or the name of the other table before it"
	switch asked, is := expr.Subqueries(text), expr.Subqueries(e.SQL); {
	case len(columns) == 0:
		column = u.table.bare(text)
	case len(asked) == len(is):
		for i := range asked {
			if column == "" && !expr.Names(is[i], u.alias()) {
				column = u.table.bare(asked[i])
			}
		}
	}
	if column == "" {
		column = expr.ComparedWithItself(e.SQL)
		if _, err := u.table.column(column); err != nil {
			return ""
		}
		does, otherwise = "compares "+column+" with itself", ""
	}
	return fmt.Sprintf("the subquery %s, because %[2]s is a column of its own tables: write %[3]s.%[2]s%[4]s", does,
		column, u.Rule.Table[strings.LastIndex(u.Rule.Table, ".")+1:], otherwise)
}

// bare returns a column of the table whose name stands in a text without that of a table. Empty: there is none.
func (t table) bare(text string) string {
	names := expr.Bare(text)
	for _, c := range t.columns {
		for _, name := range []string{c.Name, pq.QuoteIdentifier(c.Name)} {
			if slices.Contains(names, name) {
				return name
			}
		}
	}
	return ""
}

// hint says how a value of another type becomes one that is wanted.
func hint(field, text, found string) string {
	number := slices.Contains([]string{"smallint", "integer", "bigint", "numeric", "real", "double precision"}, found)
	texts := found == "text" || strings.HasPrefix(found, "character")
	switch {
	case strings.HasSuffix(field, ".calendar") || field == "timezone":
		return fmt.Sprintf(". Write (%s)::text", text)
	case strings.HasPrefix(field, "where") && number:
		return fmt.Sprintf(". For a flag write %s = 1", text)
	case strings.HasPrefix(field, "where") && texts:
		return fmt.Sprintf(". Compare it with a text, such as %s = 'open'", text)
	case strings.HasPrefix(field, "where"):
	case strings.HasPrefix(field, "done") && texts:
		return fmt.Sprintf(". For a flag write %[1]s = 'yes', for the text of an instant (%[1]s)::timestamptz, or "+
			"(%[1]s)::timestamp if it has no time zone", text)
	case strings.HasPrefix(field, "done") && number:
		return fmt.Sprintf(". For a flag write %[1]s = 1, for seconds since 1970 to_timestamp(%[1]s), for milliseconds "+
			"to_timestamp(%[1]s / 1000.0)", text)
	case strings.HasSuffix(field, ".times") && (number || texts):
		return fmt.Sprintf(". For a whole number write (%s)::bigint", text)
	case strings.HasPrefix(field, "steps") && number:
		return fmt.Sprintf(". For a number of days write make_interval(days => %s)", text)
	case number:
		return fmt.Sprintf(". For seconds since 1970 write to_timestamp(%[1]s), for milliseconds "+
			"to_timestamp(%[1]s / 1000.0)", text)
	case strings.HasPrefix(field, "steps") && texts:
		return fmt.Sprintf(". For a text write (%s)::interval", text)
	case texts:
		return fmt.Sprintf(". For a text with a time zone write (%[1]s)::timestamptz, and for one without "+
			"(%[1]s)::timestamp", text)
	}
	return ""
}

// named runs fn while the server writes all names of the rule with their schemas.
func (r *resolver) named(ctx context.Context, fn func() error) error {
	var path string
	if err := r.tx.GetContext(ctx, &path, "select current_setting('search_path')"); err != nil {
		return err
	}
	if _, err := r.tx.ExecContext(ctx, "set local search_path = pg_catalog, pg_temp"); err != nil {
		return err
	}
	if err := fn(); err != nil {
		return err
	}
	_, err := r.tx.ExecContext(ctx, "select set_config('search_path', $1, true)", path)
	return err
}

// tableCopy is the name of an empty copy of the table. It is not that of the table, which may be the name of a type.
const tableCopy = "pg_temp." + exprName + "_copy"

// copyTable makes an empty copy of the table, for functions whose rows have its columns.
func (r *resolver) copyTable(ctx context.Context, t table) error {
	_, err := r.tx.ExecContext(ctx, fmt.Sprintf("create temporary table %s (like %s)", tableCopy, t.Relation))
	return err
}

// refused refuses an expression that could run something else later, when a trigger computes it. A function of the copy
// tells what it runs.
func (r *resolver) refused(ctx context.Context, field string, e expr.Expr, kind string, u *understood) error {
	function := "pg_temp." + exprName
	refused, err := refusal(ctx, r.tx, true, fmt.Sprintf(`create function %s(prescient_row %s) returns %s language sql
		begin atomic select %s from (select (prescient_row).*) as %s; end`, function, tableCopy, kind, e.SQL, u.Name()))
	if err != nil {
		return err
	}
	if refused != nil {
		r.wrong(field, "the expression is about columns of the row: %s", refused.Message)
		return nil
	}
	if r.store.client == nil { // without the schema of prescient, and no trigger is made
		return undo(ctx, r.tx)
	}
	var problem sql.NullString
	var plain bool
	args := []any{fmt.Sprintf("%s(%s)", function, tableCopy), nil}
	if u.table.Roles {
		args[1] = pg.Rules.In(r.store.schema)
	}
	if err := pg.One(ctx, r.tx, pg.RuleRefused.In(r.store.schema), args, &problem, &plain); err != nil {
		return err
	}
	if problem.Valid {
		r.wrong(field, "%s", problem.String)
	}
	u.plain = u.plain && plain
	return undo(ctx, r.tx)
}
