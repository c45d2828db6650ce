package migratecmd

import (
	"context"
	"errors"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/each"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	pgsql "github.com/prescient-go/prescient/sql"
)

// roleView is a role of the schema, for people.
type roleView struct {
	Role string `json:"role"`
	May  string `json:"may"`
}

func newCmdRoles(f *factory.Factory) *cobra.Command {
	var script bool
	c := each.Help(f.WithOutput(&cobra.Command{
		Use:   "roles",
		Short: "Make roles with only the rights that each user needs: app, reader, runner, rules, operator, owner",
		Long: `Make six roles without login, make one of them the owner of the schema, and grant each the
rights that it needs. Logins become members: grant prescient_app to shop. The names of the roles
begin with the name of the schema. The command is idempotent, and "migrate up" keeps the roles
current. It needs CREATEROLE and the owner of the schema. If no login has both, print the script
with --dry-run for an administrator.`,
		Example: `  prescient migrate roles
  prescient migrate roles --dry-run | psql shop   # needs no database.url`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if script {
				if err := f.One(); err != nil {
					return err
				}
				return pgsql.PrintRoles(f.Out, f.Schema())
			}
			return each.Store(c.Context(), f, migrateRoles, pgsql.Patient())
		},
	}))
	c.Flags().BoolVar(&script, "dry-run", false, "only print the script for psql")
	return c
}

func migrateRoles(ctx context.Context, f *factory.Factory) error {
	db, err := database.Connect(ctx, f, pgsql.Patient())
	if err != nil {
		return err
	}
	if err := errors.Join(pgsql.MakeRoles(ctx, db, f.Schema()), database.Close(f, db)); err != nil {
		return err
	}
	named := func(role pgsql.Role, may string) roleView { return roleView{role.In(f.Schema()), may} }
	list := []roleView{
		named(pgsql.App, "ask for checks, cancel and move them"),
		named(pgsql.Reader, "read all tables: status, list, show, stats"),
		named(pgsql.Runner, "run, catch-up, daemon, schedules; is also an app and a reader"),
		named(pgsql.Rules, "own the functions of the triggers of rules; grant it to no login"),
		named(pgsql.Operator, "pause, retry, prune, ack, set-width, stores move, rules apply; is also a runner"),
		named(pgsql.Owner, "migrate; owns all objects"),
	}
	return output.List(f.Printer, list, table.Row{"ROLE", "MAY"}, func(v roleView) table.Row {
		return table.Row{v.Role, v.May}
	})
}
