package rulescmd

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
)

type nameOptions struct {
	f    *factory.Factory
	name string
	yes  bool // for remove
}

func (o *nameOptions) command(c *cobra.Command, run func(ctx context.Context, o *nameOptions) error) *cobra.Command {
	c.Args = cli.Exactly("NAME")
	c.RunE = func(c *cobra.Command, args []string) error {
		o.name = args[0]
		return run(c.Context(), o)
	}
	return o.f.WithOutput(c)
}

func newCmdPause(f *factory.Factory) *cobra.Command {
	return (&nameOptions{f: f}).command(&cobra.Command{
		Use:   "pause NAME",
		Short: "Hold back the steps of a rule until it is resumed",
		Long: `Hold back the steps of a rule until "rules resume", as "jobs pause" does. New rows of the table still
begin to wait. A run that is under way finishes the rows that it has claimed.`,
		Example: `  prescient rules pause order.unshipped`,
	}, runPause)
}

func newCmdResume(f *factory.Factory) *cobra.Command {
	return (&nameOptions{f: f}).command(&cobra.Command{
		Use:   "resume NAME",
		Short: "End the pause of a rule",
		Long: `End the pause of a rule. Steps that were due meanwhile are overdue from now on. Catch-up fires them, unless the
expected thing has happened.`,
		Example: `  prescient rules resume order.unshipped && prescient catch-up`,
	}, runResume)
}

// pausedView is the JSON of pause and resume.
type pausedView struct {
	Name    string `json:"name"`
	Changed bool   `json:"changed"`
}

func runPause(ctx context.Context, o *nameOptions) error {
	return o.setPaused(ctx, (*admin.Client).Pause, "%s is paused; its rows wait until: %s rules resume %s",
		"%s is paused already")
}

func runResume(ctx context.Context, o *nameOptions) error {
	return o.setPaused(ctx, (*admin.Client).Resume,
		"%s goes on; catch-up takes what was due meanwhile: %s catch-up --job %s", "%s was not paused")
}

func (o *nameOptions) setPaused(
	ctx context.Context, set func(c *admin.Client, ctx context.Context, db jobs.DB, job string) (bool, error), done,
	nothing string,
) error {
	return withStore(ctx, o.f, func(db *sqlx.DB, store *rulestore.Store) error {
		if _, err := store.Get(ctx, o.name); err != nil {
			return missing(ctx, store, o.name, err)
		}
		client, err := database.Client(ctx, o.f, db, nil)
		if err != nil {
			return err
		}
		view := pausedView{Name: o.name}
		err = database.Change(ctx, db, func(tx *sqlx.Tx) (err error) {
			view.Changed, err = set(admin.New(client), ctx, tx, o.name)
			return err
		})
		if err != nil {
			return err
		}
		if !view.Changed {
			return o.f.Say(view, fmt.Sprintf(nothing, o.name))
		}
		return o.f.Say(view, fmt.Sprintf(done, o.name, o.f.Self(), spoken.Word(o.name)))
	})
}

func newCmdRemove(f *factory.Factory) *cobra.Command {
	o := &nameOptions{f: f}
	c := o.command(&cobra.Command{
		Use:   "remove NAME",
		Short: "Drop the triggers of a rule, cancel its waiting rows, and forget it",
		Long: `Drop the triggers of a rule and their functions, cancel the rows that wait, in bounded
transactions, and forget what has fired. A pause of the rule ends. Rows that a run checks meanwhile
end without a step. The table stays as it is. If it is interrupted, or another session keeps a check locked, repeat the
command: it goes on where it was. Without --yes it only prints how many rows it would cancel.

If the rule is applied again, steps fire again for rows for which they have fired. "rules pause" holds a rule back.`,
		Example: `  prescient rules remove order.unshipped        # tells how many rows wait
  prescient rules remove order.unshipped --yes  # cancels them`,
	}, runRemove)
	c.Flags().BoolVar(&o.yes, "yes", false, "remove the rule")
	return c
}

// removedView is the JSON of remove.
type removedView struct {
	Name string `json:"name"`
	rulestore.Removed
}

func runRemove(ctx context.Context, o *nameOptions) error {
	return withStore(ctx, o.f, func(_ *sqlx.DB, store *rulestore.Store) error {
		if !o.yes {
			would, err := store.CountRemove(ctx, o.name)
			if err != nil {
				return missing(ctx, store, o.name, err)
			}
			return exit.Usagef("this drops the triggers of rule %s, cancels %s, and forgets %s: add --yes", o.name,
				spoken.Count(would.Cancelled, "waiting row", "waiting rows"),
				spoken.Count(would.Forgotten, "step that has fired", "steps that have fired"))
		}
		show, end := progressOf(ctx, o.f)
		removed, err := store.Remove(ctx, o.name, show)
		end()
		if err != nil {
			return missing(ctx, store, o.name, err)
		}
		return o.f.Say(removedView{o.name, removed}, fmt.Sprintf("%s is removed: %s cancelled", o.name,
			spoken.Count(removed.Cancelled, "waiting row was", "waiting rows were")))
	})
}
