package eventscmd

import (
	"context"
	"errors"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	pgsql "github.com/prescient-go/prescient/sql"
)

type pruneOptions struct {
	keep   time.Duration
	unread bool
}

func newCmdPrune(f *factory.Factory) *cobra.Command {
	var o pruneOptions
	c := f.WithOutput(&cobra.Command{
		Use:   "prune",
		Short: "Delete the events that every consumer has acknowledged",
		Long: `Delete the events that every consumer has acknowledged, with --keep only events written
longer ago than that. An event that a consumer has not acknowledged stays, unless --unread is given.
The consumer's next read then fails, and names the lost events. If no consumer exists, only --keep
decides.`,
		Example: `  prescient events prune
  prescient events prune --keep 7d
  prescient events prune --keep 90d --unread`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if o.unread && o.keep <= 0 {
				return exit.Usagef("--unread deletes events that a consumer has not read: " +
					"give --keep to keep the recent ones, such as --keep 90d")
			}
			return pruneEvents(c.Context(), f, o)
		},
	})
	duration.Var(c.Flags(), &o.keep, "keep", 0, "delete only what was written longer ago; 0: all that was acknowledged")
	c.Flags().BoolVar(&o.unread, "unread", false, "delete also what a consumer has not acknowledged; needs --keep")
	return c
}

func pruneEvents(ctx context.Context, f *factory.Factory, o pruneOptions) error {
	return database.With(ctx, f, func(db *sqlx.DB, setting pgsql.Setting) error {
		box, now := outbox.New(db, f.Schema()), setting.Now()
		var before time.Time
		if o.keep > 0 {
			before = now.Add(-o.keep)
		}
		prune := box.Prune
		if o.unread {
			prune = box.PruneUnread
		}
		n, err := prune(ctx, before)
		if err != nil && n == 0 {
			return err
		}
		return errors.Join(err, f.Pairs(prunedView{n}, table.Row{"deleted", n}))
	})
}

// prunedView counts deleted events, as JSON.
type prunedView struct {
	Deleted int64 `json:"deleted"` // events
}
