package rulescmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/schedule/crontab"
)

type planOptions struct {
	fileOptions
	check, again, verbose bool
}

func newCmdPlan(f *factory.Factory) *cobra.Command {
	o := &planOptions{fileOptions: fileOptions{f: f}}
	c := o.flag(f.WithOutput(&cobra.Command{
		Use:   "plan",
		Short: "Show what \"rules apply\" would change",
		Long: `Show what "rules apply" would change, and change nothing: the triggers that it would
create, the rows that would begin to wait, the rows that would wait for another slot, and
the rows with steps that have passed. It reads each table page by page. With --check, the exit code is 3 if an apply
would change anything. With --again, it also counts the rows of unchanged rules that triggers have missed.

For each step it shows for how many of the rows that are there the step will fire, if they do not change until then:
up to five keys, the first slots, and for how many rows the step has passed and will not fire. If the rule or the
calendar has a zone, its clocks are beside the slots. The last table has the slots in which the rows are checked first,
and how many rows of all jobs wait in them already. --verbose shows more slots, and whole statements.

It refuses a rule that cannot work, with the line of the file: a table or a column that is not there, a key that is not
unique, a condition that writes or is volatile, a step before the step above it, a statement that the server cannot
prepare, a name that a job of this binary has.

It needs a login that may read the table.`,
		Example: `  prescient rules plan -f rules.yaml
  prescient rules plan -f rules.yaml --check
  prescient rules plan -f rules.yaml --output json | jq '.rules[].begin'`,
		RunE: func(c *cobra.Command, _ []string) error { return runPlan(c.Context(), o) },
	}))
	c.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "show more slots, and whole statements")
	c.Flags().BoolVar(&o.check, "check", false, "exit with 3 if an apply would change anything")
	againVar(c, &o.again)
	return c
}

func runPlan(ctx context.Context, o *planOptions) error {
	file, err := o.readWith(ctx)
	if err != nil {
		return err
	}
	return withStore(ctx, o.f, func(db *sqlx.DB, store *rulestore.Store) error {
		if o.again {
			store = store.Again()
		}
		if err := warnOfJobs(ctx, o.f, db, file); err != nil {
			return err
		}
		refused := rule.Separate(checkReceivers(ctx, o.f, file))
		show, end := progressOf(ctx, o.f)
		plan, err := store.Plan(ctx, file, show)
		end()
		if err := rule.JoinByLine(append(refused, rule.Separate(err)...)); err != nil {
			return o.naming(err)
		}
		err = o.f.Print(plan, func() error { return printPlan(o.f, plan, o.verbose) })
		if err == nil && o.check && plan.Changes() {
			err = &exit.Error{Code: exit.Found}
		}
		return err
	})
}

// bounds say how much of a plan is shown.
type bounds struct {
	firing, checks int // slots
	statements     bool
}

func boundsOf(verbose bool) bounds {
	if verbose {
		return bounds{firing: 20, checks: 20, statements: true}
	}
	return bounds{firing: 3, checks: 5}
}

// printPlan prints a plan for a person.
func printPlan(f *factory.Factory, plan rulestore.Plan, verbose bool) error {
	var err error
	for i, r := range plan.Rules {
		if i > 0 {
			err = errors.Join(err, f.Lines(""))
		}
		err = errors.Join(err, f.Lines(fmt.Sprintf("rule %s on table %s: %s", r.Name, r.Table, planned[r.Action])),
			printRule(f.Printer, r, boundsOf(verbose)))
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
func printRule(p *output.Printer, r rulestore.RulePlan, show bounds) error {
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
		switch {
		case r.Unstarted == 0:
		case r.Rechecks():
			add("no instant", "%d have no since, and are looked at in many slots until another table has one. "+
				"Let where leave out those that never get one", r.Unstarted)
		default:
			add("no instant", "%d have no since, and wait for a write to a table of also", r.Unstarted)
		}
		if r.Paused > 0 {
			add("paused", "%d have clocks that stand still. Their steps have no slot until they go on", r.Paused)
		}
		if r.Unknown > 0 {
			add("unknown names", "%d name no calendar of the file, or no time zone, and their checks fail until they do: %s",
				r.Unknown, unknownNames(r.Names))
		}
		if r.Overdue > 0 {
			add("overdue", "%d have steps that have passed%s", r.Overdue, refusal(r.Refused))
		}
	}
	if len(rows) == 0 {
		return nil
	}
	err := p.Table(nil, rows...)
	if r.Action != rulestore.Unchanged && r.Counting > 0 {
		err = errors.Join(err, printForecast(p, r, show), printSlots(p, r.Slots, show.checks))
	}
	return err
}

// unknownNames lists names that are not known.
func unknownNames(names []rulestore.NameCount) string {
	return strings.Join(seq.Map(names, func(n rulestore.NameCount) string {
		return fmt.Sprintf("%s (%s)", n, spoken.Count(n.Rows, "row", "rows"))
	}), ", ")
}

// printForecast prints what the steps will do.
func printForecast(p *output.Printer, r rulestore.RulePlan, show bounds) error {
	steps, heading := r.Forecast, "If no row changes until then, the steps fire for:"
	if r.Refused {
		heading = "Apply refuses the rule as it is. With overdue: last, and if no row changes until then, the steps fire for:"
	}
	var acts, slots []table.Row
	var lines []string
	zoned := slices.ContainsFunc(steps, func(s rulestore.StepForecast) bool {
		return slices.ContainsFunc(s.Slots, func(slot rulestore.FiringSlot) bool { return slot.Timezone != "" })
	})
	for _, s := range steps {
		acts = append(acts, table.Row{
			s.Step, s.Rows, s.LeftOut, s.Fired, strings.Join(s.Keys, ", "), brief(s.When), brief(s.Does),
		})
		slots = append(slots, firingRows(s, show.firing, zoned)...)
		if show.statements {
			lines = append(lines, fmt.Sprintf("%s, %s: %s", s.Step, s.When, s.Does))
		}
	}
	err := errors.Join(p.Lines("", heading),
		p.Table(table.Row{
			"STEP", "ROWS", "LEFT OUT", "FIRED", "FIRST KEYS", output.Droppable("WHEN"), output.Droppable("DOES"),
		}, acts...))
	if len(lines) > 0 {
		err = errors.Join(err, p.Lines(""), p.Lines(lines...))
	}
	if len(slots) == 0 {
		return err
	}
	header := table.Row{"STEP", "FIRES IN SLOT", "ROWS"}
	if zoned {
		header = table.Row{"STEP", "FIRES IN SLOT", "LOCAL TIME", "ROWS"}
	}
	return errors.Join(err, p.Lines(""), p.Table(header, slots...))
}

// firingRows returns the first slots in which a step fires, and one line for those after them. zoned tells that the
// table has local times.
func firingRows(s rulestore.StepForecast, most int, zoned bool) (rows []table.Row) {
	local := func(slot rulestore.FiringSlot) string {
		zone, err := crontab.Zone("", slot.Timezone)
		if err != nil {
			zone = time.UTC // no step fires by such clocks
		}
		return slot.Slot.In(zone).Format("Mon 2006-01-02 15:04 MST")
	}
	add := func(slot, local any, n int64) {
		row := table.Row{s.Step, slot, local, n}
		if !zoned {
			row = slices.Delete(row, 2, 3)
		}
		rows = append(rows, row)
	}
	shown := s.Slots[:min(len(s.Slots), most)]
	left := s.Rows
	for _, slot := range shown {
		add(slot.Slot, local(slot), slot.Rows)
		left -= slot.Rows
	}
	if more := len(s.Slots) - len(shown); more > 0 {
		add(fmt.Sprintf("and %s later", spoken.Count(more, "slot", "slots")), "to "+local(s.Slots[len(s.Slots)-1]), left)
	}
	return rows
}

// printSlots prints for which slots rows will wait.
func printSlots(p *output.Printer, slots []rulestore.SlotCount, most int) error {
	if len(slots) == 0 {
		return nil
	}
	shown := slots[:min(len(slots), most)]
	err := errors.Join(p.Lines(""), output.Rows(p, shown, table.Row{"FIRST CHECKED IN SLOT", "ROWS", "WAITING ALREADY"},
		func(s rulestore.SlotCount) table.Row {
			return table.Row{s.Slot, s.Rows, *s.Waiting} // counted for more slots than these
		}))
	if more := len(slots) - len(shown); more > 0 {
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
