// Package rulescmd has the commands that apply rules to tables, and look at them.
package rulescmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/spoken"
	pgsql "github.com/prescient-go/prescient/sql"
)

// NewCmdRules returns the command rules, with those below it.
func NewCmdRules(f *factory.Factory) *cobra.Command {
	c := cli.Group("rules", "Act on rows of tables for which something has not happened in time",
		newCmdPlan(f), newCmdApply(f), newCmdTest(f), newCmdCalendar(f), newCmdSQL(f),
		newCmdList(f), newCmdShow(f), newCmdPause(f), newCmdResume(f), newCmdRemove(f))
	c.Long = `Act on rows of tables for which something has not happened in time. A file says so in rules:

  calendars:
    berlin: {timezone: Europe/Berlin, country: DE, hours: "mon-fri 09:00-17:00"}
  rules:
    - name: order.unshipped
      table: shop.orders
      key: id                      # the primary key, or a unique column
      since: placed_at             # when the clock starts
      done: shipped_at             # a column that is null until it happens; or a condition
      where: channel <> 'test'     # which rows the rule is about
      payload: [customer_id, amount]
      steps:
        - {after: 48h, event: order.late}
        - {after: 3 business days, calendar: berlin, job: order.lost}
        - {after: 4d at 09:00, every: 2d, times: 3, event: order.reminder}
        - {after: 10d, sql: "insert into shop.lost values ($key)"}
      overdue: last                # steps that had passed when a row appears: fire, last, skip or spread N

"rules apply" creates triggers on the table. Each row that the rule is about then waits for its next step. Every run,
catch-up and daemon checks the rows that are due, and fires each step once.`
	return factory.Patient(c)
}

// fileOptions is the file that a command reads.
type fileOptions struct {
	f    *factory.Factory
	file string
}

func (o *fileOptions) flag(c *cobra.Command) *cobra.Command {
	c.Flags().StringVarP(&o.file, "file", "f", "", "the `FILE` of rules, YAML or JSON; - reads stdin")
	_ = c.MarkFlagRequired("file")
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 1 && o.file == "" {
			return fmt.Errorf("unexpected argument %q: want --file %s", args[0], args[0])
		}
		return cli.Exactly()(c, args)
	}
	return c
}

// read reads the file. Its mistakes are errors of usage, each with its line.
func (o *fileOptions) read() (rule.File, error) {
	file, err := o.parse()
	return file, o.naming(err)
}

// readWith is read, and adds to the mistakes those that the database tells, if it can be reached: so all of them are
// told at once.
func (o *fileOptions) readWith(ctx context.Context) (rule.File, error) {
	file, err := o.parse()
	known, all := rule.Problems(err), rule.Separate(err)
	if len(known) == 0 || len(file.Rules) == 0 {
		return file, o.naming(err)
	}
	_ = withStore(ctx, o.f, func(db *sqlx.DB, store *rulestore.Store) error {
		all = append(all, store.Mistakes(ctx, file, known)...)
		return warnOfJobs(ctx, o.f, db, file)
	})
	all = append(all, rule.Separate(checkReceivers(ctx, o.f, file))...)
	return file, o.naming(rule.JoinByLine(all))
}

// parse reads the file.
func (o *fileOptions) parse() (rule.File, error) {
	in, err := o.f.Open(o.file)
	if err != nil {
		return rule.File{}, fmt.Errorf("read the rules: %w", err)
	}
	defer func() { _ = in.Close() }() // it was only read
	if o.file == "-" {
		return rule.ParseIn(in, "")
	}
	return rule.ParseIn(in, filepath.Dir(o.file))
}

// naming adds the name of the file to each error that names a line of it. Mistakes are errors of usage, unless
// something was changed.
func (o *fileOptions) naming(err error) error {
	_, mistake := errors.AsType[*rule.Problem](err)
	_, lacks := errors.AsType[*rulestore.RightsError](err)
	_, overdue := errors.AsType[*rulestore.OverdueError](err)
	if !mistake && !lacks && !overdue {
		return err
	}
	name := o.file
	if name == "-" {
		name = "stdin"
	}
	list := rule.Separate(err)
	for i, e := range list {
		list[i] = fmt.Errorf("%s: %w", name, e)
	}
	if _, partial := errors.AsType[*rulestore.PartialError](err); mistake && !partial {
		return exit.Usagef("%w", errors.Join(list...))
	}
	return errors.Join(list...)
}

// withStore calls fn with the store of the database.
func withStore(ctx context.Context, f *factory.Factory, fn func(db *sqlx.DB, store *rulestore.Store) error) error {
	return withDB(ctx, f, func(db *sqlx.DB, store *rulestore.Store, _ time.Time) error { return fn(db, store) })
}

// withDB is withStore with the clock of the database.
func withDB(
	ctx context.Context, f *factory.Factory, fn func(db *sqlx.DB, store *rulestore.Store, now time.Time) error,
) error {
	return database.With(ctx, f, func(db *sqlx.DB, setting pgsql.Setting) error {
		store, err := rulestore.New(ctx, db, rulestore.Config{
			Schema: f.Config().Database.Schema, Actor: database.Actor(),
			Reserved: func(name string) bool { return checks.Has(f, name) },
		})
		if err != nil {
			return err
		}
		return fn(db, store, setting.Now())
	})
}

// warnOfJobs warns of steps whose job neither this binary nor the database has. Another binary may have it.
func warnOfJobs(ctx context.Context, f *factory.Factory, db *sqlx.DB, file rule.File) error {
	client, err := database.Client(ctx, f, db, nil)
	if err != nil {
		return err
	}
	for _, r := range file.Rules {
		warn := func(field, job string) {
			checks.WarnOfJob(ctx, f, db, client, job, func(err error) error { return r.Problem(field, "%v", err) })
		}
		for i, s := range r.Steps {
			warn(fmt.Sprintf("steps[%d].job", i+1), s.Job)
		}
		warn("recovered", r.Recovered.Job)
		warn("met", r.Met.Job)
	}
	return nil
}

// checkReceivers warns of messages to receivers that the settings do not have. Those of the runs may have them. It
// refuses HTML for a receiver that sends no mail.
func checkReceivers(ctx context.Context, f *factory.Factory, file rule.File) error {
	var problems []error
	for _, r := range file.Rules {
		check := func(field string, n rule.Notify) {
			checks.WarnOfReceiver(ctx, f, n.Receiver, r.Problem(field+".notify", "%s", n.Receiver).Error())
			if n.HTML != "" && !checks.TakesHTML(f, n.Receiver) {
				problems = append(problems, r.Problem(field+".html", "receiver %s sends no mail, and only a mail has HTML: "+
					"leave out html, or notify a receiver of mail", n.Receiver))
			}
		}
		for i, s := range r.Steps {
			check(fmt.Sprintf("steps[%d]", i+1), s.Notify)
		}
		check("recovered", r.Recovered.Notify)
		check("met", r.Met.Notify)
	}
	return errors.Join(problems...)
}

// missing makes the error of a rule that is not there one of usage, which names similar rules.
func missing(ctx context.Context, store *rulestore.Store, name string, err error) error {
	if !errors.Is(err, rulestore.ErrNotFound) {
		return err
	}
	list, listErr := store.List(ctx)
	if listErr != nil {
		return err
	}
	names := seq.Map(list, func(r rulestore.Status) string { return r.Rule.Name })
	return exit.Usagef("there is no rule %s%s", name, cmp.Or(spoken.Meant(name, names), cli.Known("rule", names)))
}
