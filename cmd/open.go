package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/cmd/internal/private"
	"github.com/prescient-go/prescient/cmd/view"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/embedded"
)

// Open connects to the database of the settings; the caller closes it.
//
// If database.url is config.Embedded, or is not set and the command has a terminal, that is the
// private PostgreSQL. Open starts it if it does not run, and migrates its schema. Without
// database.url and a terminal Open returns an error.
//
// A database given by its URL is never changed. If it lacks the schema, the error is
// pgsql.ErrNotMigrated. Open also returns an error if the settings expect another width than the
// database has.
func (a *App) Open(ctx context.Context, opts ...pgsql.Option) (*sqlx.DB, error) {
	db, _, err := a.open(ctx, opts...)
	return db, err
}

// open is Open, and also returns the settings of the database and its clock.
func (a *App) open(ctx context.Context, opts ...pgsql.Option) (*sqlx.DB, pgsql.Setting, error) {
	db, err := a.connect(ctx, opts...)
	if err != nil {
		return nil, pgsql.Setting{}, err
	}
	setting, err := a.setting(ctx, db)
	if err == nil {
		err = a.checkWidth(setting)
	}
	if err != nil {
		return nil, setting, errors.Join(err, a.closeDB(db))
	}
	return db, setting, nil
}

// URL returns the URL of the database that Open opens, with its password, and starts and checks that database as
// Open does.
func (a *App) URL(ctx context.Context) (string, error) {
	db, err := a.Open(ctx)
	if err != nil {
		return "", err
	}
	if err := a.closeDB(db); err != nil {
		return "", err
	}
	return a.address(ctx)
}

// connect is Open for commands that work without the schema, or with another width.
func (a *App) connect(ctx context.Context, opts ...pgsql.Option) (*sqlx.DB, error) {
	if a.scope.Many {
		return nil, a.stores().ErrMany()
	}
	url, err := a.address(ctx)
	if err != nil {
		return nil, err
	}
	opts = append(opts, pgsql.Name(a.command))
	if a.Config().Database.Prepare == "on" {
		opts = append(opts, pgsql.Prepared())
	}
	if a.scope.Pools != nil {
		return a.scope.Pools.Open(ctx, url, opts...)
	}
	db, err := openURL(ctx, url, opts...)
	if err != nil && ctx.Err() == nil && !a.private() && a.scope.Store == "" {
		err = fmt.Errorf("%w (database.url is from %s)", err, a.origin("database.url"))
	}
	if err != nil {
		return nil, err
	}
	connections := a.Config().Run.Connections + slots.OwnConnections // a run needs these; no other command needs more
	db.SetMaxOpenConns(connections)
	go a.watchLocks(ctx, db)
	return db, nil
}

// closeDB closes a database that connect has opened.
func (a *App) closeDB(db *sqlx.DB) error {
	if a.scope.Pools != nil {
		return nil // other stores may use it
	}
	if err := db.Close(); err != nil {
		return fmt.Errorf("close the database: %w", err)
	}
	return nil
}

// private reports whether the database is the private PostgreSQL.
func (a *App) private() bool { return private.Is(a.Config().Database) }

// address returns the URL of the database, and starts the private one. Only a command with a
// terminal does so: a command that cron or a service manager runs without a database.url was meant
// for another database.
func (a *App) address(ctx context.Context) (string, error) {
	if a.Config().Database.URL.Reveal() == "" && !isTerminal(os.Stdin) && !isTerminal(os.Stderr) {
		return "", usagef("no database.url is set, and the command has no terminal: set it in a configuration file "+
			"(--config, ./prescient.yaml, /etc/prescient/prescient.yaml), or by PRESCIENT_DATABASE_URL or --database-url. "+
			"%q is the private PostgreSQL", config.Embedded)
	}
	return a.ReplayURL(ctx)
}

func isTerminal(file *os.File) bool { return output.IsTerminal(file) }

// ReplayURL is URL for replays and demos, which leave no trace in a database and need no schema in
// it. If no database.url is set, it is always the private PostgreSQL.
func (a *App) ReplayURL(ctx context.Context) (string, error) {
	return private.URL(ctx, a.Config().Database, a.log)
}

func (a *App) schema() pgsql.Schema { return pgsql.Schema(a.Config().Database.Schema) }

// setting reads the settings of the database, and migrates the private one if they are missing.
func (a *App) setting(ctx context.Context, db *sqlx.DB) (pgsql.Setting, error) {
	setting, err := pgsql.ReadSetting(ctx, db, a.schema())
	if !errors.Is(err, pgsql.ErrNotMigrated) || !a.private() {
		return setting, err
	}
	if err := pgsql.Migrate(ctx, db, a.schema()); err != nil {
		return setting, err
	}
	return pgsql.ReadSetting(ctx, db, a.schema())
}

func (a *App) checkWidth(setting pgsql.Setting) error {
	want, have := a.Config().Slots.Width, setting.Grid.Width()
	if want == 0 || want == have {
		return nil
	}
	return usagef("slots.width is %s (%s), but the database has slots of %s: correct the setting, "+
		"or change the database with: %s slots set-width %s", duration.Text(want), a.origin("slots.width"), duration.Text(have), a.self(), duration.Text(want))
}

func (a *App) newDatabaseView(s pgsql.Setting) (view.Database, error) {
	v := view.Database{Server: s.Server, Schema: string(a.schema())}
	if !a.private() {
		return v, nil
	}
	server, err := embedded.Open(embedded.Config{})
	if err == nil {
		v.Private = server.Dir()
	}
	return v, err
}

// origin returns the source of a setting's value.
func (a *App) origin(key string) string {
	for _, entry := range a.config.Entries {
		if entry.Key == key {
			return entry.Origin
		}
	}
	return "default"
}

// withDB calls fn with the database of Open and its settings, and closes it.
func (a *App) withDB(ctx context.Context, fn func(db *sqlx.DB, s pgsql.Setting) error, opts ...pgsql.Option) error {
	db, setting, err := a.open(ctx, opts...)
	if err != nil {
		return err
	}
	defer func() { _ = a.closeDB(db) }()
	return fn(db, setting)
}

func (a *App) ledger(ctx context.Context, db *sqlx.DB) (*slots.Ledger, error) {
	return slots.NewLedger(ctx, db, a.Config().Database.Schema, nil)
}

// withLedger is withDB for commands about slots.
func (a *App) withLedger(ctx context.Context, fn func(db *sqlx.DB, l *slots.Ledger, s pgsql.Setting) error) error {
	return a.withDB(ctx, func(db *sqlx.DB, setting pgsql.Setting) error {
		ledger, err := a.ledger(ctx, db)
		if err != nil {
			return err
		}
		return fn(db, ledger, setting)
	})
}

func (a *App) client(ctx context.Context, db *sqlx.DB) (*jobs.Client, error) {
	cfg := a.Config()
	return jobs.NewClient(ctx, db, jobs.Config{
		Schema: cfg.Database.Schema, Horizon: cfg.Jobs.Horizon, MaxPayload: cfg.Jobs.MaxPayload,
	})
}

// actor returns the user who is logged in.
func actor() string { return cmp.Or(os.Getenv("SUDO_USER"), os.Getenv("LOGNAME"), os.Getenv("USER")) }

// change calls fn in a transaction whose actor is the user who is logged in.
func change(ctx context.Context, db *sqlx.DB, fn func(tx *sqlx.Tx) error) error {
	return pgsql.InTx(ctx, db, func(tx *sqlx.Tx) error {
		if err := jobs.SetActor(ctx, tx, actor()); err != nil {
			return err
		}
		return fn(tx)
	})
}

// withClient is withDB for commands about jobs. now is the database's clock.
func (a *App) withClient(ctx context.Context, fn func(db *sqlx.DB, c *jobs.Client, now time.Time) error, opts ...pgsql.Option) error {
	return a.withDB(ctx, func(db *sqlx.DB, setting pgsql.Setting) error {
		client, err := a.client(ctx, db)
		if err != nil {
			return err
		}
		return fn(db, client, setting.Now())
	}, opts...)
}
