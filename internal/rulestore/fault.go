package rulestore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulesession"
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
	// Loose has the actions of alter table after which the key identifies a row alone again. Empty: the key does.
	Loose []string
	// Attached has the partitions that were attached since the triggers were made, with rows that may not wait.
	Attached []string
	// Parent is a table of which this one has become a part. Triggers miss what is written through it.
	Parent string
	// Children are tables that inherit from this one. Triggers miss what is written to them.
	Children []string
	// Zone says in what the server and this binary differ about the time zone of the rule. Empty: in nothing.
	Zone string
	// Unready says why the server refuses what the checks ask it, in the words of the file. Empty: it does not.
	Unready string
	// Keys are the first keys of rows that cannot wait, because they are empty or too long.
	Keys []string
	// Refused is the owner of a trigger's function that may not call prescient. Empty if all owners may.
	Refused string
	// Denied says which right the checks lack if this login runs the slots. Nil: none.
	Denied *Denied
}

// Blind reports whether the rule cannot notice what happens in its table, or cannot check its rows.
func (f Fault) Blind() bool {
	return f.Gone || f.Broken || len(f.Missing) > 0 || len(f.Off) > 0 || len(f.Columns) > 0
}

// Denied says why the server does not let a login run the checks of a rule.
type Denied struct {
	// Role is the role of the rule, or the login if the rule has no role. It needs the right.
	Role string
	// Why is the refusal of the server.
	Why string
	// Grants are the statements that let it read the table of the rule. Empty: it lacks another right.
	Grants []string
}

// Do returns the statements, or says that another right is to be granted.
func (d Denied) Do() string {
	if len(d.Grants) == 0 {
		return fmt.Sprintf("grant %s the right", d.Role)
	}
	return strings.Join(d.Grants, "; ")
}

// Faults returns the rules whose triggers or checks cannot do their work. It asks the catalog, lets the server prepare
// and plan the statements of checks, and looks for keys of texts that no check can have.
func (s *Store) Faults(ctx context.Context) (faults []Fault, err error) {
	list, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	var rules, names, functions []string
	entities := make(map[string]string, len(list))
	for _, r := range list {
		entities[r.Rule.Name] = r.Rule.Entity
		for _, name := range triggerNames(s.schema, r.Applied) {
			rules, names = append(rules, r.Rule.Name), append(names, name)
			functions = append(functions, triggerName(s.schema, r.Rule.Name, rowFunction))
		}
	}
	_, _, routines := pgsql.Objects(reserved.Caller{})
	called := pg.Overloads(routines,
		"cancel_keys", "rule_look", "rule_mark", "rule_rename", "rule_resume", "rule_wait", "rule_wait_many")
	args := []any{
		pq.Array(rules), pq.Array(names), pq.Array(called), s.schema.String(), pg.Rules.In(s.schema),
		pq.Array(functions),
	}
	err = s.reading(ctx, func(q pg.Querier) error {
		faults, err = pg.Collect(ctx, q, pg.RuleFaults.In(s.schema), args, scanFault)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find triggers of rules that cannot work: %w", pg.ExplainMissing(err))
	}
	for _, r := range list {
		if err := s.askAlso(ctx, r, &faults); err != nil {
			return nil, fmt.Errorf("find triggers of rule %s that cannot work: %w", r.Rule.Name, pg.ExplainMissing(err))
		}
		if err := s.ask(ctx, r, &faults); err != nil {
			return nil, fmt.Errorf("find checks of rule %s that cannot work: %w", r.Rule.Name, err)
		}
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
		(*pq.StringArray)(&f.Loose), (*pq.StringArray)(&f.Attached), &f.Parent, (*pq.StringArray)(&f.Children), &f.Refused)
}

// ask adds what the server says about the checks of a rule, unless it is known why they fail.
func (s *Store) ask(ctx context.Context, r Status, faults *[]Fault) error {
	i := slices.IndexFunc(*faults, func(f Fault) bool { return f.Rule == r.Rule.Name })
	if r.State == Removing || i >= 0 && ((*faults)[i].Gone || len((*faults)[i].Columns) > 0) {
		return nil
	}
	var keys []string
	var denied *Denied
	unready, err := s.unready(ctx, r.Applied)
	if err == nil && unready == "" {
		keys = s.badKeys(ctx, r.Applied)
		denied, err = s.denied(ctx, r.Applied)
	}
	if pg.IsLockTimeout(err) {
		return nil // the checks of the rule wait for the next slot then, and say so
	}
	if err != nil {
		return err
	}
	zone, _, err := s.zone(ctx, r.Rule.Timezone)
	if err != nil {
		return err
	}
	if i < 0 && unready == "" && len(keys) == 0 && denied == nil && zone == "" {
		return nil
	}
	f := faultOf(r, faults)
	f.Unready, f.Keys, f.Denied, f.Zone = unready, keys, denied, zone
	return nil
}

// faultOf returns the fault of a rule, which it adds if there is none.
func faultOf(r Status, faults *[]Fault) *Fault {
	i := slices.IndexFunc(*faults, func(f Fault) bool { return f.Rule == r.Rule.Name })
	if i < 0 {
		i = len(*faults)
		*faults = append(*faults, Fault{Rule: r.Rule.Name, Table: r.Relation})
	}
	return &(*faults)[i]
}

// unready returns why the server does not prepare the query or a statement of the checks of a rule. A name that it uses
// may be gone since the rule was applied.
func (s *Store) unready(ctx context.Context, r rule.Applied) (why string, err error) {
	err = s.readTable(ctx, func(tx *sqlx.Tx) error {
		why = ""
		if role := r.Rule.Role; role != "" {
			var there bool
			var unread pq.StringArray
			args := []any{role, nil, nil}
			if err := pg.One(ctx, tx, pg.RuleRole.In(s.schema), args, &there, &unread); err != nil {
				return err
			}
			if !there {
				why = "there is no role " + role
				return nil
			}
		}
		for i := -1; i < len(r.Rule.Steps); i++ {
			what, query, written, settings := "", r.RowsQuery(), noParameter, rulesession.Read
			if i >= 0 {
				what, settings = "step "+r.Rule.Steps[i].Name+": ", qualifiedNames
				query, written = r.Query(i)
			}
			if query == "" {
				continue
			}
			if _, err := tx.ExecContext(ctx, settings); err != nil {
				return err
			}
			refused, err := refusal(ctx, tx, false, query)
			if err != nil {
				return err
			}
			if refused == nil || refused.Code == pqerror.InsufficientPrivilege {
				continue
			}
			text := refusedText{text: query, statement: query, refused: refused, written: written}
			if why, err = s.words(ctx, tx, text); err != nil {
				return err
			}
			why = what + why
			break
		}
		return nil
	})
	return why, err
}

// readTable is pgsql.ReadTx for a look at the table of a rule. It waits only briefly for another session's lock.
func (s *Store) readTable(ctx context.Context, fn func(tx *sqlx.Tx) error) error {
	return pgsql.ReadTx(ctx, s.db, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, "set local lock_timeout = '1s'"); err != nil {
			return err
		}
		return fn(tx)
	})
}

func noParameter(part string) string { return part }

const (
	mostKeys = 3
	// keysTime bounds the search for keys, which reads the table.
	keysTime = 5 * time.Second
)

// badKeys returns the first keys of rows that cannot wait, shortened. It looks for keys of texts alone. It finds none
// if that takes too long, or if the login may not read the table.
func (s *Store) badKeys(ctx context.Context, r rule.Applied) (keys []string) {
	if !slices.ContainsFunc(r.KeyType, func(of string) bool {
		return strings.HasPrefix(of, "text") || strings.HasPrefix(of, "character")
	}) {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, keysTime, errUndo)
	defer cancel()
	key := r.KeyText(r.Name())
	query := fmt.Sprintf(`
		select case when prescient_key = '' then '''''' else left(prescient_key, 20) || '...' end
		from (
			select prescient_key, %[1]s as prescient_about
			from (
				select *, %[2]s as prescient_key from %[3]s where octet_length(%[2]s) not between 1 and %[4]d offset 0
			) as %[5]s
			offset 0
		) as prescient_row
		where prescient_about
		limit %[6]d`, r.Facts.WhereSQL(), key, r.Relation, maxKey, r.Name(), mostKeys)
	_ = s.readTable(ctx, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, rulesession.Read); err != nil {
			return err
		}
		keys = nil
		return tx.SelectContext(ctx, &keys, query)
	})
	return keys
}

// tableOf returns the name of a table without its schema.
func tableOf(relation string) string {
	names, err := rule.ParseName(relation)
	if err != nil {
		return ""
	}
	return names[len(names)-1]
}
