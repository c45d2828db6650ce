package rulestore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulesession"
	pgsql "github.com/prescient-go/prescient/sql"
)

// mostAlso is the most tables of a rule.Rule.Also.
const mostAlso = 10

// alsoFunction is in the names of the function and of the triggers of a table of Rule.Also, by its position from 0.
func alsoFunction(i int) string { return fmt.Sprintf("also%d", i+1) }

// also finds the tables of Rule.Also, and their columns with the key.
func (r *resolver) also(ctx context.Context, u *understood, key []column) error {
	for i, also := range r.rule.Also {
		field := rule.Entry("also", i, len(r.rule.Also))
		var t table
		found, err := r.findTable(ctx, field, also.Table, &t)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		applied := rule.AppliedAlso{Relation: t.Relation, Parted: t.partitioned()}
		for n, name := range also.Key[:min(len(also.Key), len(key))] {
			c, err := t.column(name)
			if err != nil {
				r.wrong(field, "%v", err)
				continue
			}
			r.alsoKey(field, *c, key[n])
			applied.Key, applied.KeyType = append(applied.Key, pq.QuoteIdentifier(c.Name)), append(applied.KeyType, c.Base)
		}
		u.Also = append(u.Also, applied)
	}
	return nil
}

// alsoKey refuses a column of a table of Rule.Also whose text may not be that of a column of the key.
func (r *resolver) alsoKey(field string, c, key column) {
	switch {
	case c.Virtual.Valid:
		r.wrong(field, "column %s is virtual, and triggers do not see its value: make it a stored column", c.Name)
	case c.Type != c.Base || textsOf(c.Base) != textsOf(key.Base):
		r.wrong(field, "column %s is of type %s, and key %s of type %s: their texts differ, so the row would not be found",
			c.Name, c.Type, key.Name, key.Type)
	case c.Base == "numeric":
		r.wrong(field, "key %s is of type numeric without a scale, and 1 and 1.0 are equal numbers with two texts, so the "+
			"row might not be found: give both columns one scale, such as numeric(20,0)", key.Name)
	}
}

// textsOf returns what types have in common whose values have the same texts.
func textsOf(base string) string {
	switch {
	case slices.Contains([]string{"smallint", "integer", "bigint"}, base):
		return "integer"
	case base == "text" || strings.HasPrefix(base, "character varying"):
		return "text"
	}
	return base
}

// unseen returns the tables that expressions look up, and whose changes no trigger tells.
func (u understood) unseen() []string {
	return slices.DeleteFunc(slices.Clone(u.looked), func(relation string) bool {
		return slices.ContainsFunc(u.Also, func(a rule.AppliedAlso) bool { return a.Relation == relation })
	})
}

// alsoTrigger is a trigger of a table of Rule.Also.
type alsoTrigger struct {
	Relation string `db:"relation"`
	Name     string `db:"name"`
	Body     string `db:"body"` // of its function
}

// alsoTriggers returns the triggers of the tables of Rule.Also, and the statements that create them instead of those
// that there are.
//
// A table has triggers for each statement, as that of the rule has for inserts. They need no condition: any column may
// be one that the rule looks up.
func (u understood) alsoTriggers(schema pgsql.Schema, fill func(pg.Statement, string) string) (
	wanted []alsoTrigger, statements string,
) {
	statements = dropAlso(schema, u.Rule.Name) + ";\n"
	for i, also := range u.Also {
		name := func(event string) string { return triggerName(schema, u.Rule.Name, alsoFunction(i)+"_"+event) }
		function := u.function(schema, alsoFunction(i))
		inserted, deleted := "prescient_new", "prescient_old"
		events := []struct{ name, of, how string }{
			{"insert", "insert", "referencing new table as prescient_new for each statement"},
			{"update", "update", "referencing old table as prescient_old new table as prescient_new for each statement"},
			{"delete", "delete", "referencing old table as prescient_old for each statement"},
		}
		if also.Parted {
			inserted = fmt.Sprintf("(select new.%s) as prescient_new", strings.Join(also.Key, ", new."))
			deleted = fmt.Sprintf("(select old.%s) as prescient_old", strings.Join(also.Key, ", old."))
			events = events[:1]
			events[0].name, events[0].of, events[0].how = "write", "insert or update or delete", "for each row"
		}
		var alike []string
		for n, column := range also.Key {
			alike = append(alike, fmt.Sprintf("pg_typeof(%s) = '%s'::regtype", column, also.KeyType[n]))
		}
		text := strings.NewReplacer("{also}", function, "{also_key}", rule.KeyText("", also.Key, also.KeyType),
			"{also_alike}", strings.Join(alike, " and "),
			"{inserted}", inserted, "{deleted}", deleted).Replace(fill(template("also"), ""))
		statements += text + u.protect(schema, function+"()", also.Parted) + "\n"
		for _, event := range events {
			wanted = append(wanted, alsoTrigger{also.Relation, name(event.name), body.FindStringSubmatch(text)[1]})
			statements += fmt.Sprintf("create trigger %s after %s on %s\n%s\nexecute function %s();\n",
				pq.QuoteIdentifier(name(event.name)), event.of, also.Relation, event.how, function)
		}
	}
	return wanted, statements
}

// dropAlso returns the statement that drops the functions of the tables of Rule.Also, and their triggers.
func dropAlso(schema pgsql.Schema, name string) string {
	var functions []string
	for i := range mostAlso {
		functions = append(functions, pg.Rules.In(schema)+"."+pq.QuoteIdentifier(triggerName(schema, name, alsoFunction(i))))
	}
	return fmt.Sprintf("drop function if exists %s cascade", strings.Join(functions, ", "))
}

// planAlso finds out whether the tables of Rule.Also have their triggers. While they lacked one, the rule has missed
// what they say.
func (s *Store) planAlso(ctx context.Context, p *RulePlan, fill func(pg.Statement, string) string) error {
	wanted, statements := p.rule.alsoTriggers(s.schema, fill)
	var found []alsoTrigger
	err := pg.ReadTx(ctx, s.db, func(tx *sqlx.Tx) (err error) {
		// The names of tables are quoted as those of the rule.
		if _, err := tx.ExecContext(ctx, rulesession.Understand); err != nil {
			return err
		}
		found, err = s.findAlso(ctx, tx, p.Name)
		return err
	})
	order := func(a, b alsoTrigger) int {
		return cmp.Or(cmp.Compare(a.Relation, b.Relation), cmp.Compare(a.Name, b.Name))
	}
	slices.SortFunc(found, order)
	slices.SortFunc(wanted, order)
	if err != nil || slices.Equal(found, wanted) {
		return err
	}
	p.also, p.walks = p.rule.settings(s.schema)+statements, true
	for _, t := range wanted {
		p.Triggers = append(p.Triggers, t.Name+" on "+t.Relation)
	}
	return nil
}

// findAlso returns the triggers that tables of Rule.Also have.
func (s *Store) findAlso(ctx context.Context, q pg.Querier, name string) ([]alsoTrigger, error) {
	var functions []string
	for i := range mostAlso {
		functions = append(functions, triggerName(s.schema, name, alsoFunction(i)))
	}
	return pg.Collect(ctx, q, pg.RuleAlso.In(s.schema), []any{pq.Array(functions), pg.Rules.In(s.schema)},
		func(row *sql.Rows, t *alsoTrigger) error { return row.Scan(&t.Relation, &t.Name, &t.Body) })
}

// askAlso adds the triggers that tables of Rule.Also lack, or that do not fire.
func (s *Store) askAlso(ctx context.Context, r Status, faults *[]Fault) error {
	if len(r.Also) == 0 || r.State == Removing {
		return nil
	}
	var found []alsoTrigger
	err := s.reading(ctx, func(q pg.Querier) (err error) {
		found, err = s.findAlso(ctx, q, r.Rule.Name)
		return err
	})
	for i, also := range r.Also {
		events := []string{"insert", "update", "delete"}
		if also.Parted {
			events = []string{"write"}
		}
		for _, event := range events {
			name := triggerName(s.schema, r.Rule.Name, alsoFunction(i)+"_"+event)
			if err == nil && !slices.ContainsFunc(found, func(t alsoTrigger) bool { return t.Name == name }) {
				f := faultOf(r, faults)
				f.Missing = append(f.Missing, name+" on "+also.Relation)
			}
		}
	}
	return err
}
