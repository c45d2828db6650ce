package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	pgsql "github.com/prescient-go/prescient/sql"
)

func newMigrate(a *App) *cobra.Command {
	return group("migrate", "Create the database schema, and bring it up to date",
		newMigrateUp(a), newMigrateStatus(a), newMigrateDown(a), newMigratePrint(a), newMigrateRoles(a))
}

func newMigrateUp(a *App) *cobra.Command {
	return a.withOutput(&cobra.Command{
		Use:   "up",
		Short: "Bring the schema up to date, creating it where it is missing",
		Long: `Bring the schema up to date, creating it where it is missing, and print the migrations that were applied.
Any number of processes may do so at once. The role must be allowed to create tables. Connect to PostgreSQL itself,
not through a pooler in transaction mode.`,
		Example: `  prescient migrate up --database-url postgres://owner@db.example.com/shop`,
		Args:    exactly(),
		RunE:    func(c *cobra.Command, _ []string) error { return migrateUp(c.Context(), a) },
	})
}

func migrateUp(ctx context.Context, a *App) error {
	return a.withSchema(ctx, func(db *sqlx.DB, before []pgsql.Migration) error {
		if err := pgsql.Migrate(ctx, db, a.schema()); err != nil {
			return err
		}
		after, err := pgsql.Migrations(ctx, db, a.schema())
		if err != nil {
			return err
		}
		var fresh []pgsql.Migration
		for i, m := range after {
			if m.Applied && !before[i].Applied {
				fresh = append(fresh, m)
			}
		}
		if len(fresh) == 0 {
			return a.print([]pgsql.Migration{}, func() error { return a.lines("nothing to do: the schema is up to date") })
		}
		return printMigrations(a, fresh)
	})
}

func newMigrateStatus(a *App) *cobra.Command {
	return a.withOutput(&cobra.Command{
		Use:     "status",
		Short:   "List the migrations, and which of them the database has",
		Example: `  prescient migrate status`,
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withSchema(c.Context(), func(_ *sqlx.DB, list []pgsql.Migration) error {
				return printMigrations(a, list)
			})
		},
	})
}

type migrateDownOptions struct {
	to  int64
	yes bool
}

func newMigrateDown(a *App) *cobra.Command {
	var o migrateDownOptions
	c := a.withOutput(&cobra.Command{
		Use:   "down --to N",
		Short: "Take the schema back to a version, dropping tables with all that is in them",
		Example: `  prescient migrate down --to 0        # says what would be dropped
  prescient migrate down --to 0 --yes  # drops it`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return migrateDown(c.Context(), a, o) },
	})
	c.Flags().Int64Var(&o.to, "to", 0, "`VERSION` to go back to; 0 leaves nothing")
	c.Flags().BoolVar(&o.yes, "yes", false, "do drop it")
	_ = c.MarkFlagRequired("to")
	return c
}

func migrateDown(ctx context.Context, a *App, o migrateDownOptions) error {
	if o.to < 0 {
		return usagef("--to %d: must be 0 or a version of migrate status", o.to)
	}
	return a.withSchema(ctx, func(db *sqlx.DB, list []pgsql.Migration) error {
		var undone []pgsql.Migration
		var names []string
		for _, m := range list {
			if m.Applied && m.Version > o.to {
				undone = append(undone, m)
				names = append(names, m.Name)
			}
		}
		if len(undone) > 0 && !o.yes {
			return usagef("this undoes %s in schema %s of %s, and drops their tables with all that is in them; add --yes to do so",
				strings.Join(names, ", "), a.schema(), a.databaseName())
		}
		if len(undone) > 0 {
			if err := pgsql.MigrateDown(ctx, db, a.schema(), o.to); err != nil {
				return err
			}
		}
		return printMigrations(a, undone)
	})
}

// databaseName is the database for messages, without a password.
func (a *App) databaseName() string {
	if a.private() {
		return "the private PostgreSQL"
	}
	return a.Config().Database.URL.String()
}

func newMigratePrint(a *App) *cobra.Command {
	return &cobra.Command{
		Use:     "print",
		Short:   "Print the whole schema as a script for psql; needs no database",
		Example: `  prescient migrate print --schema checks | psql --single-transaction`,
		Args:    exactly(),
		RunE:    func(*cobra.Command, []string) error { return pgsql.PrintMigrations(a.Out, a.schema()) },
	}
}

// withSchema calls fn with a database that may lack the schema, and with the migrations as they are.
func (a *App) withSchema(ctx context.Context, fn func(db *sqlx.DB, list []pgsql.Migration) error) error {
	db, err := a.connect(ctx, pgsql.Patient())
	if err != nil {
		return err
	}
	list, err := pgsql.Migrations(ctx, db, a.schema())
	if err == nil {
		err = fn(db, list)
	}
	if closed := db.Close(); closed != nil {
		err = errors.Join(err, fmt.Errorf("close the database: %w", closed))
	}
	return err
}

func printMigrations(a *App, list []pgsql.Migration) error {
	return printList(a, list, table.Row{"VERSION", "NAME", "APPLIED AT"}, func(m pgsql.Migration) table.Row {
		return table.Row{m.Version, m.Name, m.AppliedAt}
	})
}
