package storescmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/jobs/stores"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

func newCmdAdd(f *factory.Factory) *cobra.Command {
	var roles, yes bool
	c := f.WithOutput(&cobra.Command{
		Use:   "add NAME",
		Short: "Prepare a store of the settings",
		Long: `Prepare a store that the settings list, by its name or by a pattern. Bring its schema up to date, create
it if it is missing, and set the width of its slots to that of the other stores. If applications choose stores by keys,
then move the rows that now belong to it with "stores move". The command is idempotent.

If the store has tables already, --roles may take them from the login that owns them, as "migrate roles" does.
If there is such a login, the command changes nothing without --yes: it prints what the login loses.`,
		Example: `  prescient stores add north
  prescient stores add tenants/tenant_42 --roles`,
		Args: cli.Exactly("NAME"),
		RunE: func(c *cobra.Command, args []string) error { return addStore(c.Context(), f, args[0], roles, yes) },
	})
	c.Flags().BoolVar(&roles, "roles", false, "make its roles, too; see migrate roles")
	c.Flags().BoolVar(&yes, "yes", false, "with --roles: make them although another login loses the schema")
	return factory.Patient(c)
}

// addedStore describes a store that stores add has added.
type addedStore struct {
	Store   string        `json:"store"`
	Version int           `json:"version"` // of its schema
	Width   duration.Text `json:"width"`
}

func addStore(ctx context.Context, f *factory.Factory, name string, roles, yes bool) error {
	if len(f.Config().Stores) == 0 {
		return exit.Usagef("the settings list no stores: add it to stores in a configuration file first")
	}
	s, err := f.FindStore(name)
	if err != nil {
		return err
	}
	one := f.On(s)
	db, err := database.Connect(ctx, one)
	if err != nil {
		return err
	}
	if err := prepare(ctx, one, db, roles, yes); err != nil {
		return err
	}
	v := addedStore{Store: name, Version: pgsql.SchemaVersion}
	width := widthOfOthers(ctx, f, name)
	ledger, err := ledger.New(ctx, db, one.Config().Database.Schema, nil)
	if err != nil {
		return err
	}
	if v.Width = duration.Text(ledger.Grid().Width()); width != 0 && width != ledger.Grid().Width() {
		g, err := grid.New(width)
		if err == nil {
			_, err = ledger.SetWidth(ctx, g)
		}
		if err != nil {
			return err
		}
		v.Width = duration.Text(width)
	}
	return f.Print(v, func() error {
		return errors.Join(
			f.Table(nil, table.Row{"store", v.Store}, table.Row{"schema version", v.Version},
				table.Row{"width", v.Width.String()}),
			f.Sentence(fmt.Sprintf("If keys choose the store, let every application know %s, "+
				"and then move the rows that now belong to it, from each other store: %s stores move STORE. %s", v.Store,
				f.Self(), likeApplications)),
		)
	})
}

// prepare brings the schema of a store up to date, and makes its roles if roles is set. It asks before it does either.
func prepare(ctx context.Context, f *factory.Factory, db *sqlx.DB, roles, yes bool) error {
	if roles {
		if err := perform.AskForRoles(ctx, f, db, "stores add", yes); err != nil {
			return err
		}
	}
	err := pgsql.Migrate(ctx, db, f.Schema())
	if err == nil && roles {
		err = pgsql.MakeRoles(ctx, db, f.Schema())
	}
	if err != nil {
		return &stores.Error{Store: f.Store().Name, Err: err}
	}
	return nil
}

// widthOfOthers returns the width that all other stores have, as far as they answer. It returns 0 if they differ.
func widthOfOthers(ctx context.Context, f *factory.Factory, but string) (width time.Duration) {
	for _, s := range database.All(ctx, f) {
		if s.Name == but || s.Err != nil {
			continue
		}
		one := f.On(s)
		var setting pgsql.Setting
		db, err := database.Connect(ctx, one)
		if err == nil {
			setting, err = pgsql.ReadSetting(ctx, db, one.Schema())
		}
		switch {
		case errors.Is(err, pgsql.ErrNotMigrated):
		case err != nil:
			f.Log().WarnContext(ctx, "cannot read the width of a store; it may differ", "store", s.Name, "error", err)
		case width != 0 && width != setting.Grid.Width():
			f.Log().WarnContext(ctx, "the other stores have different widths: this one keeps its own")
			return 0
		default:
			width = setting.Grid.Width()
		}
	}
	return width
}
