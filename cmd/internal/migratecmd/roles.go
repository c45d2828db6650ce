package migratecmd

import (
	"context"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	pgsql "github.com/prescient-go/prescient/sql"
)

// roleView is a role of the schema, for people.
type roleView struct {
	Role string `json:"role"`
	May  string `json:"may"`
}

// scriptView is the script that makes the roles, as JSON.
type scriptView struct {
	Schema string `json:"schema"`
	Script string `json:"script"` // SQL
}

func newCmdRoles(f *factory.Factory) *cobra.Command {
	var script, yes bool
	c := factory.OnStores(f.WithOutput(&cobra.Command{
		Use:   "roles",
		Short: "Make roles with only the rights that each user needs: app, reader, runner, rules, operator, owner",
		Long: `Make six roles without login, make one of them the owner of the schema, and grant each the
rights that it needs. Logins become members: grant prescient_app to shop. The names of the roles
begin with the name of the schema. The command is idempotent, and "migrate up" keeps the roles
current. The login that runs it needs CREATEROLE and CREATE on the database, and must own the schema. If no login has
all of these, print the script with --dry-run for an administrator.

The login that owned the schema before loses it, unless it runs the command itself. If there is such
a login, the command changes nothing: it prints what the login loses and what to grant to it. With
--yes it makes the roles, and prints the same.`,
		Example: `  prescient migrate roles
  prescient migrate roles --yes                   # also if a login loses it
  prescient migrate roles --dry-run | psql shop   # needs no database.url`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if script {
				return printRoles(f)
			}
			return database.Each(c.Context(), f, func(ctx context.Context, f *factory.Factory) error {
				return migrateRoles(ctx, f, yes)
			})
		},
	}))
	c.Flags().BoolVar(&script, "dry-run", false, "only print the script for psql")
	c.Flags().BoolVar(&yes, "yes", false, "make the roles although another login loses the schema")
	c.MarkFlagsMutuallyExclusive("dry-run", "yes")
	return c
}

func printRoles(f *factory.Factory) error {
	if err := f.Store().Err; err != nil {
		return err
	}
	var text strings.Builder
	if err := pgsql.PrintRoles(reserved.Caller{}, &text, f.Schema()); err != nil {
		return err
	}
	return f.Print(scriptView{f.Schema().String(), text.String()}, func() error {
		_, err := io.WriteString(f.Out, text.String())
		return err
	})
}

func migrateRoles(ctx context.Context, f *factory.Factory, yes bool) error {
	db, err := database.Connect(ctx, f)
	if err == nil {
		err = perform.AskForRoles(ctx, f, db, "migrate roles", yes)
	}
	if err == nil {
		err = pgsql.MakeRoles(ctx, db, f.Schema())
	}
	if err != nil {
		return err
	}
	named := func(role pg.Role, may string) roleView { return roleView{role.In(f.Schema()), may} }
	list := []roleView{
		named(pg.App, "ask for checks, cancel and move them"),
		named(pg.Reader, "read all tables but job_secret: status, list, show, stats"),
		named(pg.Runner, "run, catch-up, daemon, schedules, prune; is also an app and a reader"),
		named(pg.Rules, "own the functions of the triggers of rules; grant it to no login"),
		named(pg.Operator, "pause, retry, alerts ack, set-width, stores move, rules apply; is also a runner"),
		named(pg.Owner, "migrate; owns all objects"),
	}
	return output.List(f.Printer, list, table.Row{"ROLE", "MAY"}, func(v roleView) table.Row {
		return table.Row{v.Role, v.May}
	})
}
