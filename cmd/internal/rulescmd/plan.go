package rulescmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/internal/spoken"
)

type planOptions struct {
	fileOptions
	check, again bool
}

func newCmdPlan(f *factory.Factory) *cobra.Command {
	o := &planOptions{fileOptions: fileOptions{f: f}}
	c := o.flag(f.WithOutput(&cobra.Command{
		Use:   "plan",
		Short: "Show what \"rules apply\" would change",
		Long: `Show what "rules apply" would change, and change nothing: the triggers that it would
create, the rows that would begin to wait, by slot, the rows that would wait for another slot, and
the rows with steps that have passed. Beside each slot are the rows of all jobs that wait in it
already. It reads each table page by page. With --check, the exit code is 3 if an apply would change
anything. With --again, it also counts the rows of unchanged rules that triggers have missed.

It refuses a rule that cannot work, with the line of the file: a table or a column that is not there, a key that is not
unique, a condition that writes or is volatile, a step before the step above it, a statement that the server cannot
prepare, a name that a job of this binary has.

It needs a login that may read the table.`,
		Example: `  prescient rules plan -f rules.yaml
  prescient rules plan -f rules.yaml --check
  prescient rules plan -f rules.yaml --output json | jq '.rules[].begin'`,
		RunE: func(c *cobra.Command, _ []string) error { return runPlan(c.Context(), o) },
	}))
	c.Flags().BoolVar(&o.check, "check", false, "exit with 3 if an apply would change anything")
	againVar(c, &o.again)
	return c
}

func runPlan(ctx context.Context, o *planOptions) error {
	file, err := o.read()
	if err != nil {
		return err
	}
	return withStore(ctx, o.f, func(db *sqlx.DB, store *rulestore.Store) error {
		if o.again {
			store = store.Again()
		}
		plan, err := store.Plan(ctx, file)
		if err != nil {
			return o.naming(err)
		}
		if err := warnOfJobs(ctx, o.f, db, file); err != nil {
			return err
		}
		warnOfReceivers(ctx, o.f, file)
		err = o.f.Print(plan, func() error { return printPlan(o.f, plan) })
		if err == nil && o.check && plan.Changes() {
			err = &exit.Error{Code: exit.Found}
		}
		return err
	})
}

// maxSlots bounds the slots that a table lists.
const maxSlots = 20

// printPlan prints a plan for a person.
func printPlan(f *factory.Factory, plan rulestore.Plan) error {
	var err error
	for i, r := range plan.Rules {
		if i > 0 {
			err = errors.Join(err, f.Lines(""))
		}
		err = errors.Join(err, f.Lines(fmt.Sprintf("rule %s on table %s: %s", r.Name, r.Table, planned[r.Action])),
			printRule(f.Printer, r))
	}
	return errors.Join(err, printUnlisted(f, plan))
}

// planned says what an apply would do.
var planned = map[rulestore.Action]string{
	rulestore.Create: "would be created", rulestore.Change: "would be changed",
	rulestore.Resume: "an apply that was interrupted would go on", rulestore.Unchanged: "nothing to change",
	rulestore.Again: "its rows would be looked at again",
}

func printUnlisted(f *factory.Factory, plan rulestore.Plan) error {
	if len(plan.Unlisted) == 0 {
		return nil
	}
	n := int64(len(plan.Unlisted))
	return f.Lines("", fmt.Sprintf("%s %s applied, but not in this file: %s. To end one: %s rules remove NAME",
		spoken.List(plan.Unlisted), spoken.Noun(n, "is", "are"), spoken.Noun(n, "it stays", "they stay"), f.Self()))
}

// printRule prints the numbers of a rule's plan.
func printRule(p *output.Printer, r rulestore.RulePlan) error {
	var rows []table.Row
	add := func(name, format string, args ...any) {
		rows = append(rows, table.Row{name, fmt.Sprintf(format, args...)})
	}
	if r.Was != "" {
		add("renamed?",
			"rule %[1]s has the same table and steps, and the file does not have it. If this is its new name, "+
				"what %[1]s has fired does not count: steps that have passed are overdue. Remove %[1]s, or both fire", r.Was)
	}
	for _, warning := range r.Warnings {
		add("warning", "%s", warning)
	}
	if len(r.Unseen) > 0 {
		add("lookups", "a change in %s is noticed when a step is due, and a row that it ends stays ended. To look in the "+
			"next slot: also: {table: %s, key: COLUMN}, with the column that has the key", spoken.List(r.Unseen), r.Unseen[0])
	}
	if len(r.Triggers) > 0 {
		add("triggers", "%s", strings.Join(r.Triggers, ", "))
	}
	for _, s := range r.Steps {
		switch {
		case s.Was == "":
			add("step "+s.Name, "new: %s", s.Is)
		case s.Is == "":
			add("step "+s.Name, "gone; it was %s. What has fired stays fired", s.Was)
		case s.Was != s.Is:
			add("step "+s.Name, "%s, was %s. It fires only for rows for which it has not fired", s.Is, s.Was)
		default:
			add("step "+s.Name, "%s, as before", s.Is)
		}
	}
	for _, o := range r.Options {
		switch {
		case o.Was == "":
			add(o.Name, "new: %s", o.Is)
		case o.Is == "":
			add(o.Name, "gone; it was %s", o.Was)
		default:
			add(o.Name, "%s, was %s", o.Is, o.Was)
		}
	}
	if r.Action != rulestore.Unchanged {
		add("rows", "%d that the rule is about, and for which it has not happened", r.Counting)
		for _, n := range counted(r) {
			if n.rows > 0 {
				add(n.name, "%d", n.rows)
			}
		}
		if r.Unstarted > 0 {
			add("no instant", "%d have no since, and are looked at in many slots until another table has one. "+
				"Let where leave out those that never get one", r.Unstarted)
		}
		if r.Overdue > 0 {
			add("overdue", "%d have steps that have passed%s", r.Overdue, refusal(r.Refused))
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if err := p.Table(nil, rows...); err != nil || len(r.Slots) == 0 {
		return err
	}
	shown := r.Slots[:min(len(r.Slots), maxSlots)]
	list := make([]table.Row, len(shown))
	for i, s := range shown {
		list[i] = table.Row{s.Slot, s.Rows, *s.Waiting} // counted for more slots than these
	}
	err := errors.Join(p.Lines(""), p.Table(table.Row{"SLOT", "ROWS", "WAITING ALREADY"}, list...))
	if more := len(r.Slots) - len(shown); more > 0 {
		err = errors.Join(err,
			p.Lines(fmt.Sprintf("and %s more; --output json lists them all", spoken.Count(more, "slot", "slots"))))
	}
	return err
}

type countedRows struct {
	name string
	rows int64
}

// counted returns what becomes of the rows of a rule.
func counted(r rulestore.RulePlan) []countedRows {
	return []countedRows{
		{"begin to wait", r.Begin},
		{"re-timed", r.Retimed},
		{"wait already", r.Waiting},
		{"without a step to come", r.Counting - r.Begin - r.Retimed - r.Waiting},
	}
}

func refusal(refused bool) string {
	if refused {
		return ": apply refuses, unless the rule has overdue: fire, last, skip or spread N"
	}
	return ""
}
