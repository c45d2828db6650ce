package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots/health"
)

// rules finds rules whose triggers cannot do their work, those whose rows another job gets, and those
// whose apply or remove has stopped.
func rules(ctx context.Context, tx *sqlx.Tx, c Config) (found []Finding, err error) {
	store, err := rulestore.New(ctx, c.DB, rulestore.Config{Schema: c.Schema.String()})
	if err != nil {
		return nil, err
	}
	list, err := store.In(tx).List(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range list {
		found = append(found, c.stopped(r)...)
		if slices.Contains(c.Jobs, r.Rule.Name) {
			found = append(found, action(fmt.Sprintf("rule %s: a job of this binary or of its settings has this name, "+
				"and gets the rows of the rule: none of its steps fires", r.Rule.Name),
				"give the job another name, or remove the rule: %s rules remove %s", c.Name, spoken.Word(r.Rule.Name)))
		}
	}
	may, err := c.may(ctx, tx)
	if err != nil {
		return nil, err
	}
	faults, err := store.In(tx).Faults(ctx)
	for _, f := range faults {
		if !may.Runs {
			f.Denied = nil // the login of the runs may have the right
		}
		found = append(found, c.fault(f)...)
	}
	return found, err
}

// stopped returns the finding about an apply or a remove that has not advanced lately.
func (c Config) stopped(r rulestore.Status) []Finding {
	at := spoken.Instant(r.StoppedAt)
	switch {
	case r.StoppedAt.IsZero():
		return nil
	case r.State == rulestore.Removing:
		return []Finding{action(fmt.Sprintf("rule %s: a remove has stopped at %s", r.Rule.Name, at),
			"%s rules remove %s --yes  -- resumes it", c.Name, spoken.Word(r.Rule.Name))}
	}
	return []Finding{action(
		fmt.Sprintf("rule %s: an apply has stopped at %s, so rows of table %s do not wait yet", r.Rule.Name, at, r.Relation),
		"%s rules apply -f FILE  -- resumes it", c.Name,
	)}
}

// fault returns the findings about one rule, with those about writes first.
func (c Config) fault(f rulestore.Fault) (found []Finding) {
	name := spoken.Word(f.Rule)
	add := func(what, do string, args ...any) {
		found = append(found, action("rule "+f.Rule+": "+what, do, args...))
	}
	if f.Broken {
		add("the function that its triggers share was dropped: all rows that are written to table "+f.Table+
			" wait for the next slot", "%s rules apply -f FILE  -- creates it, and looks at all rows", c.Name)
	}
	if f.Refused != "" {
		do := fmt.Sprintf("%s migrate roles", c.Name)
		if role := pg.Rules.In(c.Schema); f.Refused != role {
			do = fmt.Sprintf("grant %s to %s  -- if the role is missing: %s", role, pq.QuoteIdentifier(f.Refused), do)
		}
		add(fmt.Sprintf("role %s owns its triggers' functions, and may not call those of schema %s: writes to table %s fail",
			f.Refused, c.Schema, f.Table), "%s", do)
	}
	switch {
	case f.Moved != "":
		lines := "table: " + f.Moved
		if f.Entity != "" {
			lines += " and entity: " + f.Entity
		}
		add("table "+f.Table+" is now "+f.Moved+", so its checks fail",
			"%s rules apply -f FILE  -- with %s in the file, or give the table its old name", c.Name, lines)
	case f.Gone:
		add("there is no table "+f.Table+", so its checks fail",
			"%s rules remove %s  -- or restore the table, and apply the rule again", c.Name, name)
	}
	if len(f.Columns) > 0 {
		add(fmt.Sprintf("table %s has no %s, which the rule reads, so its checks fail", f.Table, spoken.List(f.Columns)),
			"%s %s", c.Name, health.OtherColumn)
	}
	if len(f.Swapped) > 0 {
		add(fmt.Sprintf("its triggers read another column of table %s than %s, which had the name before", f.Table,
			spoken.List(f.Swapped)),
			"%s rules apply -f FILE  -- creates the triggers again, and looks at all rows", c.Name)
	}
	if len(f.Loose) > 0 {
		add(fmt.Sprintf("the key no longer identifies a row of table %s alone: checks take several rows for one", f.Table),
			"alter table %s %s  -- or remove the rule: %s rules remove %s", f.Table, strings.Join(f.Loose, ", "), c.Name, name)
	}
	if len(f.Attached) > 0 {
		add(fmt.Sprintf("%s %s was attached to table %s after the triggers were made: rows that it had do not wait",
			spoken.Noun(int64(len(f.Attached)), "partition", "each of the partitions"), spoken.List(f.Attached), f.Table),
			"%s rules apply -f FILE  -- looks at all rows", c.Name)
	}
	if f.Parent != "" {
		add(fmt.Sprintf("table %s has become a part of table %s: its triggers miss rows that are written through that table",
			f.Table, f.Parent),
			"%s rules remove %s  -- and make a rule about table %s", c.Name, name, f.Parent)
	}
	if len(f.Children) > 0 {
		add(fmt.Sprintf("%s %s from table %s: rows that are written to %s do not wait", spoken.List(f.Children),
			spoken.Noun(int64(len(f.Children)), "inherits", "inherit"), f.Table,
			spoken.Noun(int64(len(f.Children)), "it", "them")),
			"alter table %s no inherit %s  -- and make a rule of its own about it", f.Children[0], f.Table)
	}
	if f.Zone != "" {
		add("its steps may be due at other instants than a timestamp or a statement says: "+f.Zone,
			"update the zone data of the server, which is package tzdata of its system or PostgreSQL itself, or this binary")
	}
	if f.Unready != "" {
		add("its checks fail: "+f.Unready,
			"%s rules apply -f FILE  -- with what there is now in the file, or bring back what is gone", c.Name)
	}
	if f.Denied != nil {
		add(fmt.Sprintf("its checks fail as %s: %s", f.Denied.Role, f.Denied.Why),
			"%s  -- or, if another login runs the slots, run doctor as that login", f.Denied.Do())
	}
	if len(f.Keys) > 0 {
		add(fmt.Sprintf("rows of table %s cannot wait, because their keys do not have 1 to 500 bytes: %s", f.Table,
			spoken.List(f.Keys)),
			"%s rules apply -f FILE  -- with where: octet_length(KEY) between 1 and 500 in the file, or give them other keys",
			c.Name)
	}
	if len(f.Missing) > 0 {
		add(fmt.Sprintf("table %s lacks its triggers %s: rows that were written since do not wait as the rule says", f.Table,
			spoken.List(f.Missing)),
			"%s rules apply -f FILE  -- creates the triggers, and looks at all rows", c.Name)
	}
	if len(f.Off) > 0 {
		add(fmt.Sprintf("its triggers %s of table %s are disabled: rows that were written since do not wait as the rule says",
			spoken.List(f.Off), f.Table),
			"%s rules apply -f FILE  -- enables the triggers, and looks at all rows", c.Name)
	}
	return found
}
