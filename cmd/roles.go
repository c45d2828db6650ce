package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/jobs/stores"
	pgsql "github.com/prescient-go/prescient/sql"
)

// roleOf has the role that each command with a database needs. An operator is also a runner, and a
// runner is also an app and a reader.
var roleOf = map[string]pgsql.Role{
	"run": pgsql.Runner, "catch-up": pgsql.Runner, "daemon": pgsql.Runner,
	"serve": pgsql.Reader, "status": pgsql.Reader, "plan forecast": pgsql.Reader, "why": pgsql.Reader, "plan advise": pgsql.Reader, "doctor": pgsql.Reader,
	"install crontab": pgsql.Reader, "install systemd": pgsql.Reader, "install kubernetes": pgsql.Reader,
	"slots list": pgsql.Reader, "slots show": pgsql.Reader, "slots set-width": pgsql.Operator, "slots rewind": pgsql.Operator,
	"jobs list": pgsql.Reader, "jobs add": pgsql.App, "jobs cancel": pgsql.App,
	"jobs reschedule": pgsql.App, "jobs retry": pgsql.Operator, "jobs pause": pgsql.Operator, "jobs resume": pgsql.Operator,
	"jobs history": pgsql.Reader, "jobs stats": pgsql.Reader, "jobs prune": pgsql.Operator,
	"schedules list": pgsql.Reader, "schedules show": pgsql.Reader, "schedules preview": pgsql.Reader,
	"schedules create": pgsql.Runner, "schedules update": pgsql.Runner, "schedules delete": pgsql.Runner,
	"schedules pause": pgsql.Runner, "schedules resume": pgsql.Runner, "schedules apply": pgsql.Runner,
	"schedules trigger": pgsql.Runner, "schedules backfill": pgsql.Runner,
	"events tail": pgsql.Reader, "events consumers": pgsql.Reader, "events ack": pgsql.Operator, "events forget": pgsql.Operator, "events prune": pgsql.Operator,
	"stores list": pgsql.Reader, "stores drain": pgsql.Operator, "stores move": pgsql.Operator, "stores add": pgsql.Owner,
	"migrate up": pgsql.Owner, "migrate down": pgsql.Owner, "migrate status": pgsql.Reader, "migrate roles": pgsql.Owner,
}

// roleError is the error of a command that needed more rights than roleOf has.
type roleError struct {
	error
	role pgsql.Role
}

func (e *roleError) Unwrap() error { return e.error }

// refusal returns advice for an error of the server about missing rights.
func (a *App) refusal(err error) string {
	role, known := roleOf[strings.TrimPrefix(a.command, a.Name+" ")]
	if more, ok := errors.AsType[*roleError](err); ok {
		role, known = more.role, true
	}
	if !pgsql.HasState(err, pqerror.InsufficientPrivilege) || !known || errors.Is(err, pgsql.ErrCreateRole) || errors.Is(err, pgsql.ErrDropRole) {
		return ""
	}
	if of, ok := errors.AsType[*stores.Error](err); ok { // a store has its own login, roles and schema
		if s, all, err := a.stores().Find(of.Store); err == nil && !all {
			a = a.of(s, a.scope.Pools)
		}
	}
	user := "LOGIN"
	if cfg, err := pq.NewConfig(a.Config().Database.URL.Reveal()); err == nil {
		user = cmp.Or(cfg.User, user)
	}
	return fmt.Sprintf("; %s lacks the role %[2]s, which this needs: give it with grant %[2]s to %s, or make it with %s migrate roles",
		user, role.In(a.schema()), pq.QuoteIdentifier(user), a.self())
}

// roleView is a role of the schema, for people.
type roleView struct {
	Role string `json:"role"`
	May  string `json:"may"`
}

func newMigrateRoles(a *App) *cobra.Command {
	var script bool
	c := overAll(a.withOutput(&cobra.Command{
		Use:   "roles",
		Short: "Make roles with only the rights that each user needs: app, reader, runner, operator, owner",
		Long: `Make five roles without login, make one of them the owner of the schema, and grant each the rights that it needs.
Logins become members: grant prescient_app to shop. The names of the roles begin with the name of the schema. The command
is idempotent, and "migrate up" keeps the roles current. It needs CREATEROLE and the owner of the schema. If no login has
both, print the script with --dry-run for an administrator.`,
		Example: `  prescient migrate roles
  prescient migrate roles --dry-run | psql shop   # needs no database.url`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if script && a.scope.Many {
				return a.stores().ErrMany()
			}
			if script {
				return pgsql.PrintRoles(a.Out, a.schema())
			}
			return a.over(c.Context(), migrateRoles, pgsql.Patient())
		},
	}))
	c.Flags().BoolVar(&script, "dry-run", false, "only print the script for psql")
	return c
}

func migrateRoles(ctx context.Context, a *App) error {
	db, err := a.connect(ctx, pgsql.Patient())
	if err != nil {
		return err
	}
	if err := errors.Join(pgsql.MakeRoles(ctx, db, a.schema()), a.closeDB(db)); err != nil {
		return err
	}
	named := func(role pgsql.Role, may string) roleView { return roleView{role.In(a.schema()), may} }
	list := []roleView{
		named(pgsql.App, "ask for checks, cancel and move them"),
		named(pgsql.Reader, "read all tables: status, list, show, stats"),
		named(pgsql.Runner, "run, catch-up, daemon, schedules; is also an app and a reader"),
		named(pgsql.Operator, "pause, retry, prune, ack, set-width, stores move; is also a runner"),
		named(pgsql.Owner, "migrate; owns all objects"),
	}
	return printList(a, list, table.Row{"ROLE", "MAY"}, func(v roleView) table.Row { return table.Row{v.Role, v.May} })
}
