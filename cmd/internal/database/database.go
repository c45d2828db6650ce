// Package database connects a command to the database of each store that it works on, does its work in
// each, and adds to errors what an operator can do about them. It knows no command.
package database

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/embedded"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Open is App.Open of package cmd.
func Open(ctx context.Context, f *factory.Factory, opts ...pgsql.Option) (*sqlx.DB, error) {
	url, err := Address(ctx, f)
	if err != nil {
		return nil, err
	}
	db, err := open(ctx, f, url, opts...)
	if err != nil {
		return nil, err
	}
	if err = refuseStranger(ctx, f, db); err == nil {
		_, err = Ready(ctx, f, db)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// URL is App.URL of package cmd.
func URL(ctx context.Context, f *factory.Factory) (string, error) {
	db, err := Open(ctx, f)
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		return "", err
	}
	return Address(ctx, f)
}

// Connect returns the pool of the store that the command works on. It is closed when the command has
// ended. The store may lack the schema, or have another width than the settings expect.
func Connect(ctx context.Context, f *factory.Factory) (*sqlx.DB, error) {
	url, err := Address(ctx, f)
	if err != nil {
		return nil, err
	}
	db, err := f.Pools().Open(url, func(opts ...pgsql.Option) (*sqlx.DB, error) { return open(ctx, f, url, opts...) })
	if err == nil {
		err = refuseStranger(ctx, f, db)
	}
	if err != nil {
		return nil, err
	}
	return db, nil
}

// refuseStranger returns an error for a store that a pattern stands for, if a role owns its schema that is not trusted.
// Any role that may create schemas could make one with such a name, and let the login run the functions in it.
func refuseStranger(ctx context.Context, f *factory.Factory, db *sqlx.DB) error {
	s := f.Store()
	if !s.Matched {
		return nil
	}
	role, err := pg.Stranger(ctx, db, f.Schema(), s.Owner)
	if err != nil || role == "" {
		return err
	}
	entry, _, _ := strings.Cut(s.Name, "/")
	return fmt.Errorf("schema %s, or the table setting in it, belongs to role %s, whose functions this login would run. "+
		"Nothing was done with it. If it is a store, write owner: %[2]s to the store %[3]s in the settings, "+
		"or give it to role %[4]s", f.Schema(), role, entry, pg.Owner.In(f.Schema()))
}

// open connects to a URL, and logs which sessions block it.
func open(ctx context.Context, f *factory.Factory, url string, opts ...pgsql.Option) (*sqlx.DB, error) {
	opts = append(opts, pg.Name(f.Command()))
	switch f.Config().Database.Prepare {
	case "on":
		opts = append(opts, pgsql.Prepared())
	case "off":
		opts = append(opts, pg.Unprepared())
	}
	db, err := OpenURL(ctx, url, opts...)
	if err != nil {
		if ctx.Err() == nil && !Private(f) && f.Store().Name == "" {
			err = fmt.Errorf("%w (database.url is from %s)", err, f.Origin("database.url"))
		}
		return nil, err
	}
	db.SetMaxOpenConns(f.Pools().Most())
	// Several stores share the pool, and the context of the first may end before the others are read.
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	f.Pools().OnClose(stop)
	go watchLocks(watching, f, db)
	return db, nil
}

// Private reports whether the database is the private PostgreSQL.
func Private(f *factory.Factory) bool {
	url := f.Config().Database.URL.Reveal()
	return url == "" || url == config.Embedded
}

// Address returns the URL of the database, and starts the private one. Only a command with a
// terminal does so: a command that cron or a service manager runs without a database.url was meant
// for another database, as was one whose configuration file was skipped.
func Address(ctx context.Context, f *factory.Factory) (string, error) {
	if err := f.Store().Err; err != nil {
		return "", err
	}
	if f.Config().Database.URL.Reveal() == "" {
		if err := refuseDefault(f); err != nil {
			return "", err
		}
	}
	return ReplayURL(ctx, f)
}

// refuseDefault returns an error if a command without a database.url was meant for another database than the private
// PostgreSQL.
func refuseDefault(f *factory.Factory) error {
	apart := func(s config.Store) bool { return s.URL.Reveal() != "" }
	switch skipped := f.Loaded().Skipped; {
	case len(skipped) > 0:
		return exit.Usagef("no database.url is set, and configuration file %s, which may have it, was skipped: %s. "+
			"If its content is right, run: %s", skipped[0].File, skipped[0].Why, skipped[0].Do)
	case f.Store().Name == "" && slices.ContainsFunc(f.Config().Stores, apart):
		return exit.Usagef("--schema %s: no database.url is set, and stores of the settings have a url of their own: "+
			"name one of them with --store, or the database with --database-url", f.Schema())
	case !output.IsTerminal(os.Stdin) && !output.IsTerminal(os.Stderr):
		return exit.Usagef("no database.url is set, and the command has no terminal: set it in a configuration file "+
			"(--config, ./prescient.yaml, /etc/prescient/prescient.yaml), or by PRESCIENT_DATABASE_URL or --database-url. "+
			"%q is the private PostgreSQL", config.Embedded)
	}
	return nil
}

// ReplayURL is App.ReplayURL of package cmd.
func ReplayURL(ctx context.Context, f *factory.Factory) (string, error) {
	if !Private(f) {
		return f.Config().Database.URL.Reveal(), nil
	}
	server, err := embedded.Open(embedded.Config{})
	if err != nil {
		return "", err
	}
	return server.URL(), StartPrivate(ctx, server, f.Log())
}

// StartPrivate starts the private PostgreSQL, unless it runs. It logs that it makes the data directory
// the first time.
func StartPrivate(ctx context.Context, server *embedded.Server, log *slog.Logger) error {
	status, err := server.Status(ctx)
	if err != nil || status.Running {
		return err
	}
	if status.Version == "" {
		log.InfoContext(ctx, "making a private PostgreSQL", "data", status.Data)
	}
	return server.Start(ctx)
}

// Ready is Setting for commands that need the width that the settings expect.
func Ready(ctx context.Context, f *factory.Factory, db *sqlx.DB) (pgsql.Setting, error) {
	setting, err := Setting(ctx, f, db)
	if err == nil {
		err = CheckWidth(f, setting)
	}
	return setting, err
}

// Setting reads the settings of the database, and migrates the private one if they are missing.
func Setting(ctx context.Context, f *factory.Factory, db *sqlx.DB) (pgsql.Setting, error) {
	setting, err := pgsql.ReadSetting(ctx, db, f.Schema())
	if !errors.Is(err, pgsql.ErrNotMigrated) || !Private(f) {
		return setting, err
	}
	if err := Migrate(ctx, f, db); err != nil {
		return setting, err
	}
	return pgsql.ReadSetting(ctx, db, f.Schema())
}

// Migrate brings the schema up to date. A new one gets the width of the settings, if they have one.
func Migrate(ctx context.Context, f *factory.Factory, db *sqlx.DB) error {
	before, err := pgsql.Migrations(reserved.Caller{}, ctx, db, f.Schema())
	if err != nil {
		return err
	}
	if err := pgsql.Migrate(ctx, db, f.Schema()); err != nil {
		return err
	}
	width := f.Config().Slots.Width
	if width == 0 || before[0].Applied {
		return nil
	}
	g, err := grid.New(width)
	if err != nil {
		return err
	}
	l, err := ledger.New(ctx, db, f.Config().Database.Schema, nil)
	if err != nil {
		return err
	}
	_, err = l.As(Actor()).SetWidth(ctx, g)
	return err
}

// CheckWidth returns an error if the settings expect another width than the database has.
func CheckWidth(f *factory.Factory, setting pgsql.Setting) error {
	want, have := f.Config().Slots.Width, setting.Grid.Width()
	if want == 0 || want == have {
		return nil
	}
	return exit.Usagef("slots.width is %s (%s), but the database has slots of %s: correct the setting, "+
		"or change the database with: %s slots set-width %s",
		duration.Text(want), f.Origin("slots.width"), duration.Text(have), f.Self(), duration.Text(want))
}

// NewView describes a database to a reader.
func NewView(f *factory.Factory, s pgsql.Setting) (view.Database, error) {
	v := view.Database{Server: s.Server, Schema: string(f.Schema())}
	if !Private(f) {
		return v, nil
	}
	server, err := embedded.Open(embedded.Config{})
	if err == nil {
		v.Private = server.Dir()
	}
	return v, err
}

// With calls fn with the database of the store, which must have the schema, and with its settings.
func With(ctx context.Context, f *factory.Factory, fn func(db *sqlx.DB, s pgsql.Setting) error) error {
	db, err := Connect(ctx, f)
	if err != nil {
		return err
	}
	setting, err := Ready(ctx, f, db)
	if err != nil {
		return err
	}
	return fn(db, setting)
}

// Client returns the client for the jobs of the schema. It reads the settings of the database if they
// are nil.
func Client(ctx context.Context, f *factory.Factory, db *sqlx.DB, setting *pgsql.Setting) (*jobs.Client, error) {
	cfg := f.Config()
	return jobs.NewClient(ctx, db, jobs.Config{
		Schema: cfg.Database.Schema, Horizon: cfg.Jobs.Horizon, MaxPayload: cfg.Jobs.MaxPayload, Setting: setting,
	})
}

// Actor returns the user who is logged in.
func Actor() string { return cmp.Or(os.Getenv("SUDO_USER"), os.Getenv("LOGNAME"), os.Getenv("USER")) }

// Change calls fn in a transaction whose actor is the user who is logged in.
func Change(ctx context.Context, db *sqlx.DB, fn func(tx *sqlx.Tx) error) error {
	return pgsql.InTx(ctx, db, func(tx *sqlx.Tx) error {
		if err := jobs.SetActor(ctx, tx, Actor()); err != nil {
			return err
		}
		return fn(tx)
	})
}

// Schedules returns the recurring schedules of the schema.
func Schedules(ctx context.Context, f *factory.Factory, db *sqlx.DB, setting pgsql.Setting) (*schedule.Store, error) {
	cfg := f.Config()
	return schedule.NewStore(ctx, db, schedule.Config{
		Schema: cfg.Database.Schema, MaxPayload: cfg.Jobs.MaxPayload, Setting: &setting,
	})
}

// Running connects to the database if it runs. Unlike Open it does not start or migrate the private
// PostgreSQL.
func Running(ctx context.Context, f *factory.Factory) (*sqlx.DB, error) {
	if !Private(f) {
		return OpenURL(ctx, f.Config().Database.URL.Reveal())
	}
	server, err := embedded.Open(embedded.Config{})
	if err != nil {
		return nil, err
	}
	if status, err := server.Status(ctx); err != nil || !status.Running {
		return nil, errors.Join(err, errors.New("the private PostgreSQL does not run"))
	}
	return OpenURL(ctx, server.URL())
}

// knownSchedules bounds the schedules that are read to name them beside one that is not known.
const knownSchedules = 100

// NameSchedules adds to the error of a schedule that is not known those that are.
func NameSchedules(ctx context.Context, f *factory.Factory, db *sqlx.DB, store *schedule.Store, err error) error {
	if errors.Is(err, schedule.ErrNotFound) {
		return fmt.Errorf("%w%s", err, otherSchedules(ctx, f, db, store))
	}
	return err
}

// otherSchedules names the schedules that are known, or the command that lists them.
func otherSchedules(ctx context.Context, f *factory.Factory, db *sqlx.DB, store *schedule.Store) string {
	page, more, err := store.Page(ctx, db, schedule.Filter{Limit: knownSchedules})
	if err != nil || more {
		return fmt.Sprintf("; list them with: %s schedules list", f.Self())
	}
	return cli.Known("schedule", seq.Map(page, func(s schedule.Schedule) string { return s.ID }))
}
