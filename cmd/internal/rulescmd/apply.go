package rulescmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/internal/spoken"
)

type applyOptions struct {
	fileOptions
	again bool
}

// againVar adds the flag of commands that look at the rows of unchanged rules.
func againVar(c *cobra.Command, again *bool) {
	c.Flags().BoolVar(again, "again", false, "look at the rows of unchanged rules, too")
}

func newCmdApply(f *factory.Factory) *cobra.Command {
	o := &applyOptions{fileOptions: fileOptions{f: f}}
	c := o.flag(f.WithOutput(&cobra.Command{
		Use:   "apply",
		Short: "Create the triggers of the rules in a file, and let the rows of their tables wait",
		Long: `Create the triggers of the rules in a file, and let the rows of their tables wait. It does what "rules
plan" shows, and nothing else. It creates the triggers of a rule in one transaction. Then it lets the rows of the table
wait, up to 10,000 in each transaction. Applications go on writing to the table meanwhile.

It is idempotent. If it is interrupted, the next apply goes on where it was. Rules that the file does not have stay as
they are. It changes nothing if steps of rows have passed and a rule does not say what happens to them. If a rule fails
after something was changed, it prints the rules that it has applied, and exits 1. The next apply goes on.

With --again, it looks at the rows of unchanged rules, too, and lets those wait that triggers have missed.

It needs a login that may create triggers on the table. If roles were made, the login is a member of
prescient_operator.`,
		Example: `  prescient rules plan -f rules.yaml && prescient rules apply -f rules.yaml`,
		RunE:    func(c *cobra.Command, _ []string) error { return runApply(c.Context(), o) },
	}))
	againVar(c, &o.again)
	return c
}

func runApply(ctx context.Context, o *applyOptions) error {
	file, err := o.readWith(ctx)
	if err != nil {
		return err
	}
	return withStore(ctx, o.f, func(db *sqlx.DB, store *rulestore.Store) error {
		began := time.Now() //nolint:forbidigo // measures
		if err := warnOfJobs(ctx, o.f, db, file); err != nil {
			return err
		}
		if refused := rule.Separate(checkReceivers(ctx, o.f, file)); len(refused) > 0 {
			return o.naming(rule.JoinByLine(append(refused, store.Mistakes(ctx, file, nil)...)))
		}
		if err := checks.NameDestinations(ctx, o.f, db); err != nil {
			return err
		}
		if o.again {
			store = store.Again()
		}
		show, end := progressOf(ctx, o.f)
		plan, err := store.Apply(ctx, file, show)
		end()
		if _, overdue := errors.AsType[*rulestore.OverdueError](err); overdue {
			return exit.Usagef("%w; nothing was changed", o.naming(err))
		}
		if _, partial := errors.AsType[*rulestore.PartialError](err); err != nil && !partial {
			return o.naming(err)
		}
		return errors.Join(o.f.Print(plan, func() error { return printApplied(o.f, plan, time.Since(began)) }), o.naming(err))
	})
}

// printApplied prints what an apply did, a line for each rule.
func printApplied(f *factory.Factory, plan rulestore.Plan, took time.Duration) error {
	var lines []string
	for _, r := range plan.Rules {
		line := fmt.Sprintf("rule %s on table %s: %s", r.Name, r.Table, applied[r.Action])
		sep := "; rows: "
		for _, n := range counted(r) {
			if r.Action != rulestore.Unchanged && n.rows > 0 {
				line += fmt.Sprintf("%s%d %s", sep, n.rows, n.name)
				sep = ", "
			}
		}
		lines = append(lines, line)
		if r.Was != "" {
			lines = append(lines, fmt.Sprintf("  renamed? rule %[1]s has the same table and steps, and is not in this file. "+
				"If %[2]s is its new name, both fire until: %[3]s rules remove %[4]s", r.Was, r.Name, f.Self(), spoken.Word(r.Was)))
		}
	}
	if plan.Changes() {
		lines = append(lines, fmt.Sprintf("It took %s.", took.Round(10*time.Millisecond)))
	}
	return errors.Join(f.Lines(lines...), printUnlisted(f, plan))
}

// applied says what an apply did.
var applied = map[rulestore.Action]string{
	rulestore.Create: "created", rulestore.Change: "changed",
	rulestore.Resume: "an apply that was interrupted has gone on", rulestore.Unchanged: "nothing to change",
	rulestore.Again: "its rows were looked at again",
}

type sqlOptions struct{ fileOptions }

func newCmdSQL(f *factory.Factory) *cobra.Command {
	o := &sqlOptions{fileOptions{f: f}}
	return o.flag(&cobra.Command{
		Use:   "sql",
		Short: "Print the statements of the triggers, for a migration of your own",
		Long: `Print the statements that create the triggers of rules: for a team's own migrations, and
for a database administrator who must allow them. They give the functions to the role
prescient_rules, if roles were made, so the login that runs them must be a member of it. They are
one transaction: leave out begin and commit if your tool opens one. "rules apply" finds triggers
that are there already. Until an apply, the triggers do nothing.`,
		Example: `  prescient rules sql -f rules.yaml > migrations/0042_rules.sql`,
		RunE:    func(c *cobra.Command, _ []string) error { return runSQL(c.Context(), o) },
	})
}

func runSQL(ctx context.Context, o *sqlOptions) error {
	file, err := o.read()
	if err != nil {
		return err
	}
	return withStore(ctx, o.f, func(_ *sqlx.DB, store *rulestore.Store) error {
		text, err := store.SQL(ctx, file)
		if err != nil {
			return o.naming(err)
		}
		_, err = fmt.Fprint(o.f.Out, "begin;\n\n"+text+"commit;\n")
		return err
	})
}
