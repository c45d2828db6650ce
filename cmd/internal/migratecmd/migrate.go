// Package migratecmd has the commands that create the schema and its roles.
package migratecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

// NewCmdMigrate returns the command migrate, with those below it.
func NewCmdMigrate(f *factory.Factory) *cobra.Command {
	return factory.Patient(cli.Group("migrate", "Create the database schema, and bring it up to date",
		newCmdUp(f), newCmdStatus(f), newCmdDown(f), newCmdPrint(f), newCmdRoles(f)))
}

func newCmdUp(f *factory.Factory) *cobra.Command {
	return factory.OnStores(f.WithOutput(&cobra.Command{
		Use:   "up",
		Short: "Bring the schema up to date, and create it if it is missing",
		Long: `Bring the schema up to date, create it if it is missing, and print the steps that were
applied. Migrations change tables, and "functions" replaces the functions with those of this binary.
It also makes the rows of the binary's periodic functions, or lets them wait by their new crontabs.
After a restore from a dump, it gives the outbox positions of this server. A new schema has slots of
15 minutes, or of slots.width.
Processes may do this concurrently. The role must be allowed to create tables. Connect to PostgreSQL
itself, not through a pooler in transaction mode.`,
		Example: `  prescient migrate up --database-url postgres://owner@db.example.com/shop`,
		Args:    cli.Exactly(),
		RunE:    func(c *cobra.Command, _ []string) error { return database.Each(c.Context(), f, migrateUp) },
	}))
}

func migrateUp(ctx context.Context, f *factory.Factory) error {
	return withSchema(ctx, f, func(db *sqlx.DB, before []pgsql.Migration) error {
		if err := database.Migrate(ctx, f, db); err != nil {
			return err
		}
		if err := enqueuePeriodic(ctx, f, db); err != nil {
			return err
		}
		moved, err := outbox.New(db, f.Schema()).Renumber(reserved.Caller{}, ctx)
		if err != nil {
			return err
		}
		if moved != (outbox.Renumbered{}) {
			f.Log().WarnContext(ctx, "the outbox had positions of another server, as after a restore from a dump. It has "+
				"positions of this server now, and each consumer gets what it had not acknowledged",
				"events", moved.Events, "consumers", moved.Consumers)
		}
		after, err := pgsql.Migrations(reserved.Caller{}, ctx, db, f.Schema())
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
			text := upToDate
			if last := after[len(after)-1].Version; last > pgsql.SchemaVersion {
				text = mayUse(last)
			}
			return f.Say([]pgsql.Migration{}, text)
		}
		return f.Print(fresh, func() error { return migrationsTable(f, fresh) })
	})
}

// enqueuePeriodic makes the rows of the periodic functions of this binary.
func enqueuePeriodic(ctx context.Context, f *factory.Factory, db *sqlx.DB) error {
	if !f.Registry.HasPeriodic(reserved.Caller{}) {
		return nil
	}
	client, err := database.Client(ctx, f, db, nil)
	if err != nil {
		return err
	}
	return client.EnqueuePeriodic(reserved.Caller{}, ctx, db, f.Registry)
}

var upToDate = fmt.Sprintf("nothing to do: the schema is up to date, at version %d", pgsql.SchemaVersion)

// mayUse says that this binary works with the version of a newer one.
func mayUse(version int64) string {
	return fmt.Sprintf("nothing to do: "+
		"the schema has version %d, which is newer than this binary, and may be used by it", version)
}

func newCmdStatus(f *factory.Factory) *cobra.Command {
	var check bool
	c := factory.OnStores(f.WithOutput(&cobra.Command{
		Use:   "status",
		Short: "List the migrations, and which of them the database has",
		Long: `List the migrations, and which of them the database has, including migrations of a newer
binary. With --check the exit code is 3 if this binary needs another schema. An older schema needs
"migrate up". A newer one needs a newer binary, unless it may be used by this one.`,
		Example: `  prescient migrate status
  prescient migrate status --check`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return database.Look(c.Context(), f, func(ctx context.Context, f *factory.Factory) error {
				return migrateStatus(ctx, f, check)
			})
		},
	}))
	c.Flags().BoolVar(&check, "check", false, "exit with 3 if this binary needs another schema")
	return c
}

func migrateStatus(ctx context.Context, f *factory.Factory, check bool) error {
	return withSchema(ctx, f, func(db *sqlx.DB, list []pgsql.Migration) error {
		missing := 0
		for _, m := range list {
			if !m.Applied {
				missing++
			}
		}
		verdict, differs, last := upToDate, true, list[len(list)-1].Version
		var newer error
		if last > pgsql.SchemaVersion {
			if _, newer = pgsql.ReadSetting(ctx, db, f.Schema()); newer != nil && !errors.Is(newer, pgsql.ErrNewer) {
				return newer
			}
		}
		switch {
		case newer != nil:
			verdict = fmt.Sprintf("the schema is newer than this binary: it has version %d, and the binary knows %d; "+
				"install the newer binary", last, pgsql.SchemaVersion)
		case last > pgsql.SchemaVersion:
			verdict, differs = mayUse(last), false // also if the functions are those of the newer binary
		case missing > 0:
			verdict = fmt.Sprintf("%d of %d are missing; apply them with: %s migrate up", missing, len(list), f.Self())
		default:
			differs = false
		}
		err := f.Print(list, func() error { return errors.Join(migrationsTable(f, list), f.Lines(""), f.Sentence(verdict)) })
		if err == nil && check && differs {
			return &exit.Error{Code: exit.Found}
		}
		return err
	})
}

func newCmdDown(f *factory.Factory) *cobra.Command {
	var yes, roles bool
	c := f.WithOutput(&cobra.Command{
		Use:   "down",
		Short: "Drop the schema: prescient's tables and functions, with every row",
		Long: `Drop the schema: prescient's tables, types and functions, with every waiting check and all
history. Objects of an application in the same schema stay, and with them the schema. It fails, and
drops nothing, if such an object depends on one of prescient's.

The roles of "migrate roles" stay. With --roles it drops them after the tables. If a role still owns objects or has
rights, here or in another database of the server, all roles stay, and an error names them.

On the private PostgreSQL, the next command creates an empty schema. To remove that server, run "dev-db stop" and delete
its directory, which "dev-db status" names.

Without --yes it drops nothing: it says what it would drop, and exits with 5.`,
		Example: `  prescient migrate down        # says what it would drop
  prescient migrate down --yes  # drops it
  prescient migrate down --yes --roles`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return migrateDown(c.Context(), f, yes, roles) },
	})
	c.Flags().BoolVar(&yes, "yes", false, "drop it")
	c.Flags().BoolVar(&roles, "roles", false, "drop the roles of the schema, too")
	return c
}

func migrateDown(ctx context.Context, f *factory.Factory, yes, roles bool) error {
	return withSchema(ctx, f, func(db *sqlx.DB, list []pgsql.Migration) error {
		undone := slices.DeleteFunc(slices.Clone(list), func(m pgsql.Migration) bool { return !m.Applied })
		switch last := list[len(list)-1].Version; {
		case last > pgsql.SchemaVersion:
			return fmt.Errorf("schema %s has version %d, and this binary knows %d: %w", f.Schema(), last, pgsql.SchemaVersion,
				pgsql.ErrNewer)
		case len(undone) == 0 && !roles:
			return f.Print([]pgsql.Migration{}, func() error { return f.Sentence("nothing to do: the schema does not exist") })
		case !yes:
			return perform.Ask(f, dropping(ctx, f, db, len(undone) > 0, roles))
		}
		if err := pgsql.MigrateDown(reserved.Caller{}, ctx, db, f.Schema()); err != nil {
			return err
		}
		var what []string
		if len(undone) > 0 {
			what = append(what, fmt.Sprintf("prescient's objects in schema %s", f.Schema()))
		}
		if roles {
			dropped, err := pgsql.DropRoles(reserved.Caller{}, ctx, db, f.Schema())
			if err != nil {
				return err
			}
			if len(dropped) > 0 {
				what = append(what, "roles "+strings.Join(dropped, ", "))
			}
		}
		text := "dropped: " + strings.Join(what, ", and ")
		if len(what) == 0 {
			text = "nothing to do: neither the schema nor a role of it exists"
		}
		if len(undone) > 0 && database.Private(f) {
			text += ". The next command creates an empty schema on this private PostgreSQL"
		}
		return f.Print(undone, func() error { return f.Sentence(text) })
	})
}

// dropping says what migrateDown would drop: the objects in the schema, its roles, or both.
func dropping(ctx context.Context, f *factory.Factory, db *sqlx.DB, objects, roles bool) action.Plan {
	plan := action.Plan{What: "migrate down", Target: "schema " + f.Schema().String(), Warnings: []string{}}
	of := fmt.Sprintf("schema %s of %s", f.Schema(), databaseName(f))
	switch {
	case !objects:
		plan.Text = "Drops the roles of " + of
	case roles:
		plan.Warnings = append(plan.Warnings, "Drops the roles of the schema, too.")
		fallthrough
	default:
		plan.Text = "Drops prescient's tables and functions in " + of + ", with every row" + contents(ctx, f, db)
	}
	return plan
}

// mostCounted bounds the rows that contents counts.
const mostCounted = 10_000

// contents says what the schema has. It is empty if that cannot be read, as in a schema of an older version.
func contents(ctx context.Context, f *factory.Factory, db *sqlx.DB) string {
	var waiting, ended, schedules int64
	var rules pq.StringArray // such as "order.late on shop.orders"
	err := pgsql.ReadTx(ctx, db, func(tx *sqlx.Tx) error {
		return tx.QueryRowContext(ctx, pg.SchemaContents.In(f.Schema())).Scan(&waiting, &ended, &schedules, &rules)
	})
	if err != nil {
		return ""
	}
	rows := func(n int64, one, many string) string {
		return ledger.Count{N: min(n, mostCounted), AtLeast: n > mostCounted}.Of(one, many)
	}
	text := fmt.Sprintf(": %s, %s of history, %s", rows(waiting, "waiting check", "waiting checks"),
		rows(ended, "row", "rows"), spoken.Count(schedules, "schedule", "schedules"))
	if n := len(rules); n > 0 {
		text += fmt.Sprintf(", and the triggers of %s, %s", spoken.Count(n, "rule", "rules"), spoken.List(rules))
	}
	return text
}

// databaseName returns the database for messages, without a password.
func databaseName(f *factory.Factory) string {
	if database.Private(f) {
		return "the private PostgreSQL"
	}
	return f.Config().Database.URL.String()
}

func newCmdPrint(f *factory.Factory) *cobra.Command {
	return f.WithOutput(&cobra.Command{
		Use:     "print",
		Short:   "Print the whole schema as a script for psql; needs no database",
		Example: `  prescient migrate print --schema checks | psql --single-transaction`,
		Args:    cli.Exactly(),
		RunE:    func(*cobra.Command, []string) error { return printSchema(f) },
	})
}

// schemaView is the script that makes a schema, as JSON.
type schemaView struct {
	Schema  string `json:"schema"`
	Version int    `json:"version"` // that the script makes
	Script  string `json:"script"`  // SQL
}

func printSchema(f *factory.Factory) error {
	if err := f.Store().Err; err != nil {
		return err
	}
	var script strings.Builder
	if err := pgsql.PrintMigrations(reserved.Caller{}, &script, f.Schema()); err != nil {
		return err
	}
	view := schemaView{f.Schema().String(), pgsql.SchemaVersion, script.String()}
	return f.Print(view, func() error {
		_, err := io.WriteString(f.Out, view.Script)
		return err
	})
}

// withSchema calls fn with a database that may lack the schema, and with its current migrations.
func withSchema(ctx context.Context, f *factory.Factory, fn func(db *sqlx.DB, list []pgsql.Migration) error) error {
	db, err := database.Connect(ctx, f)
	if err != nil {
		return err
	}
	if err := pgsql.RefuseEngine(reserved.Caller{}, ctx, db); err != nil {
		return err
	}
	list, err := pgsql.Migrations(reserved.Caller{}, ctx, db, f.Schema())
	if err != nil {
		return err
	}
	return fn(db, list)
}

func migrationsTable(f *factory.Factory, list []pgsql.Migration) error {
	return output.Rows(f.Printer, list, table.Row{"VERSION", "NAME", "APPLIED AT"}, func(m pgsql.Migration) table.Row {
		return table.Row{m.Version, cmp.Or(m.Name, "(of a newer binary)"), m.AppliedAt}
	})
}
