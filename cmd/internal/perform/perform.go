// Package perform gives a command the store that it works on, and is its way to an action: it prints the
// preview, or does the action and prints the report. It knows no command.
package perform

import (
	"context"
	"errors"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Flags are the flags of each command that does an action.
type Flags struct {
	DryRun bool
	Yes    bool
}

// Add adds --dry-run and, to a command of a final action, --yes.
func (o *Flags) Add(c *cobra.Command, yes string) {
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "only print what it would do")
	if yes != "" {
		c.Flags().BoolVar(&o.Yes, "yes", false, yes)
		c.MarkFlagsMutuallyExclusive("dry-run", "yes")
	}
}

// Action does the action that make returns, or prints its preview: with --dry-run, and without --yes if
// the action is final. make may change the store, and reads flags that name a time by its clock.
func Action(
	ctx context.Context, f *factory.Factory, o Flags, make func(s *action.Store) (action.Action, error),
) error {
	return With(ctx, f, func(s *action.Store) error {
		a, err := make(s)
		if err != nil {
			return err
		}
		_, final := a.(action.Final)
		if o.DryRun || final && !o.Yes {
			return preview(ctx, f, o, s, a)
		}
		report, err := Do(ctx, s, a)
		if report == nil {
			return err
		}
		return errors.Join(err, f.Print(report, func() error { return f.Sentence(report.String()) }))
	})
}

// OnNamed completes the command of an action on what its only argument names. yes is the usage of --yes, see Flags.Add.
func OnNamed(f *factory.Factory, c *cobra.Command, arg, yes string, of func(name string) action.Action) *cobra.Command {
	var flags Flags
	c.Args = cli.Exactly(arg)
	c.RunE = func(c *cobra.Command, args []string) error {
		return Action(c.Context(), f, flags, func(*action.Store) (action.Action, error) { return of(args[0]), nil })
	}
	flags.Add(c, yes)
	return f.WithOutput(c)
}

// With calls fn with the store of the command. An error about a schedule that is not known names those that are.
func With(ctx context.Context, f *factory.Factory, fn func(s *action.Store) error) error {
	return database.With(ctx, f, func(db *sqlx.DB, setting pgsql.Setting) error {
		s, err := On(ctx, f, db, setting)
		if err != nil {
			return err
		}
		return refused(database.NameSchedules(ctx, f, db, s.Schedules, fn(s)))
	})
}

// On returns what actions on a database work on.
func On(ctx context.Context, f *factory.Factory, db *sqlx.DB, setting pgsql.Setting) (*action.Store, error) {
	s := &action.Store{
		DB: db, Schema: f.Schema(), Setting: setting, Ledger: ledger.Of(db, f.Schema(), setting, nil),
		Publishing: &schedule.PublishConfig{
			Publisher: outbox.New(db, f.Schema()), Source: f.Config().Events.Source, Schema: f.Schema(),
		},
		Jobs: checks.Names(f), Self: f.Self(),
	}
	var err error
	if s.Client, err = database.Client(ctx, f, db, &setting); err != nil {
		return nil, err
	}
	if s.Schedules, err = database.Schedules(ctx, f, db, setting); err != nil {
		return nil, err
	}
	s.Rules, err = rulestore.New(ctx, db, rulestore.Config{Schema: f.Config().Database.Schema, Setting: &setting})
	return s, err
}

// Do does an action as the user who is logged in. The report is nil if nothing was done.
func Do(ctx context.Context, s *action.Store, a action.Action) (report action.Report, err error) {
	if long, is := a.(action.Long); is {
		return action.Run(ctx, s, long, database.Actor())
	}
	err = database.Change(ctx, s.DB, func(tx *sqlx.Tx) (err error) {
		report, err = action.Do(ctx, action.Tx{Store: s, Tx: tx}, a.(action.Quick))
		return err
	})
	if err != nil {
		report = nil // it was rolled back
	}
	return report, err
}

// preview prints what an action would do. Without --dry-run it is an error that --yes is missing.
func preview(ctx context.Context, f *factory.Factory, o Flags, s *action.Store, a action.Action) error {
	plan, err := Preview(ctx, s, a)
	if err != nil {
		return err
	}
	if o.DryRun {
		return Print(f, plan)
	}
	return Ask(f, plan)
}

// Ask prints what a command would do with --yes, and returns the error that --yes is missing, or nil if there is
// nothing to do. Each command that needs --yes asks by it.
func Ask(f *factory.Factory, plan action.Plan) error {
	switch err := Print(f, plan); {
	case err != nil || plan.Nothing:
		return err
	case plan.Until.IsZero():
		return exit.Unconfirmedf("nothing was done. To do this: --yes")
	}
	return exit.Unconfirmedf("nothing was done. To do exactly this: --until %s --yes",
		plan.Until.Format(time.RFC3339Nano))
}

// Preview returns what an action would do.
func Preview(ctx context.Context, s *action.Store, a action.Action) (plan action.Plan, err error) {
	err = database.Change(ctx, s.DB, func(tx *sqlx.Tx) (err error) {
		plan, err = action.Preview(ctx, action.Tx{Store: s, Tx: tx}, a)
		return err
	})
	return plan, err
}

// Print prints a preview.
func Print(f *factory.Factory, plan action.Plan) error {
	return f.Print(plan, func() error {
		err := f.Sentence(plan.Text)
		for _, warning := range plan.Warnings {
			err = errors.Join(err, f.Sentence(warning))
		}
		return err
	})
}

// refused gives an action that makes no sense the code of a command that was used wrongly.
func refused(err error) error {
	if _, is := errors.AsType[*action.RefusedError](err); is {
		return &exit.Error{Code: exit.Usage, Err: err}
	}
	return err
}
