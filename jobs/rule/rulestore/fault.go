package rulestore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/jobs/rule"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Fault says why the triggers of a rule cannot do their work.
type Fault struct {
	Rule  string
	Table string
	// Gone tells that the table does not exist. Moved is the table that has its triggers now. Empty if no
	// table has them.
	Gone  bool
	Moved string
	// Entity is the entity of the rule, which its file must name if it was the name that the table had
	// before. Empty if the file need not name it.
	Entity string
	// Missing and Off name the triggers that the table lacks, and those that do not fire.
	Missing, Off []string
	// Broken tells that the function is gone which says what a row means, so that the triggers fail.
	Broken bool
	// Columns has the columns that the rule reads, and the table lacks, as SQL.
	Columns []string
	// Swapped has the columns that the rule reads, and of which its triggers read another that had the name
	// before.
	Swapped []string
	// Attached has the partitions that were attached since the triggers were made, with rows that may not wait.
	Attached []string
	// Parent is a table of which this one has become a part. Triggers miss what is written through it.
	Parent string
	// Refused is the owner of a trigger's function that may not call prescient. Empty if all owners may.
	Refused string
}

// Faults returns the rules whose triggers cannot do their work. It asks the catalog alone.
func (s *Store) Faults(ctx context.Context) (faults []Fault, err error) {
	list, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	var rules, names, functions []string
	entities := make(map[string]string, len(list))
	for _, r := range list {
		entities[r.Rule.Name] = r.Rule.Entity
		for _, name := range triggerNames(s.schema, r.Rule.Name) {
			rules, names = append(rules, r.Rule.Name), append(names, name)
			functions = append(functions, triggerName(s.schema, r.Rule.Name, rowFunction))
		}
	}
	called := pgsql.Routines("cancel_keys", "rule_rename", "rule_resume", "rule_wait", "rule_wait_many")
	args := []any{
		pq.Array(rules), pq.Array(names), pq.Array(called), s.schema.String(), pgsql.Rules.In(s.schema),
		pq.Array(functions),
	}
	err = s.reading(ctx, func(q pgsql.Querier) error {
		faults, err = pgsql.Collect(ctx, q, pgsql.RuleFaults.In(s.schema), args, scanFault)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for triggers of rules that cannot work: %w", pgsql.ExplainMissing(err))
	}
	for i := range faults {
		f := &faults[i]
		if entity := entities[f.Rule]; f.Moved != "" && tableOf(f.Table) == entity && tableOf(f.Moved) != entity {
			f.Entity = entity
		}
	}
	return faults, nil
}

// scanFault reads a row of statement rule_faults.
func scanFault(row *sql.Rows, f *Fault) error {
	return row.Scan(&f.Rule, &f.Table, &f.Gone, &f.Moved, (*pq.StringArray)(&f.Missing), &f.Broken,
		(*pq.StringArray)(&f.Off), (*pq.StringArray)(&f.Columns), (*pq.StringArray)(&f.Swapped),
		(*pq.StringArray)(&f.Attached), &f.Parent, &f.Refused)
}

// tableOf returns the name of a table without its schema.
func tableOf(relation string) string {
	names, err := rule.ParseName(relation)
	if err != nil {
		return ""
	}
	return names[len(names)-1]
}
