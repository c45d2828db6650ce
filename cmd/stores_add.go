package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/multistore"
	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/jobs/stores"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

func newStoresAdd(a *App) *cobra.Command {
	var roles bool
	c := a.withOutput(&cobra.Command{
		Use:   "add NAME",
		Short: "Make a store ready that the settings list",
		Long: `Prepare a store that the settings list or that one of their patterns covers. Bring its schema up to date, create it if
it is missing, and set the width of its slots to that of the other stores. If applications choose stores by keys, then move
the rows that now belong to it with "stores move". The command is idempotent.`,
		Example: `  prescient stores add north
  prescient stores add tenants/tenant_42 --roles`,
		Args: cli.Exactly("NAME"),
		RunE: func(c *cobra.Command, args []string) error { return addStore(c.Context(), a, args[0], roles) },
	})
	c.Flags().BoolVar(&roles, "roles", false, "make its roles, too; see migrate roles")
	return c
}

// addedStore is what stores add tells.
type addedStore struct {
	Store   string        `json:"store"`
	Version int           `json:"version"` // of its schema
	Width   duration.Text `json:"width"`
}

func addStore(ctx context.Context, a *App, name string, roles bool) (err error) {
	if len(a.Config().Stores) == 0 {
		return usagef("the settings list no stores: add it to stores in a configuration file first")
	}
	s, err := a.stores().FindOne(name)
	if err != nil {
		return err
	}
	pools := a.newPools(a.watchLocks, pgsql.Patient())
	defer func() { err = errors.Join(err, pools.Close()) }()
	one := a.of(s, pools)
	db, err := one.connect(ctx)
	if err != nil {
		return err
	}
	if err := pgsql.Migrate(ctx, db, one.schema()); err != nil {
		return &stores.Error{Store: name, Err: err}
	}
	if roles {
		if err := pgsql.MakeRoles(ctx, db, one.schema()); err != nil {
			return &stores.Error{Store: name, Err: err}
		}
	}
	v := addedStore{Store: name, Version: pgsql.SchemaVersion}
	width := a.widthOfOthers(ctx, pools, name)
	ledger, err := one.ledger(ctx, db)
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
	return a.print(v, func() error {
		return errors.Join(
			a.table(nil, table.Row{"store", v.Store}, table.Row{"schema version", v.Version}, table.Row{"width", v.Width.String()}),
			a.sentence(fmt.Sprintf("If keys choose the store, let every application know %s, and then move the rows that now belong to it, from each other store: %s stores move STORE", v.Store, a.self())),
		)
	})
}

// widthOfOthers is the width of the slots of all stores but one, where it is the same in all that tell theirs; else 0.
func (a *App) widthOfOthers(ctx context.Context, pools *multistore.Pools, but string) (width time.Duration) {
	for _, s := range pools.All(ctx) {
		if s.Name == but || s.Err != nil {
			continue
		}
		one := a.of(s, pools)
		var setting pgsql.Setting
		db, err := one.connect(ctx)
		if err == nil {
			setting, err = pgsql.ReadSetting(ctx, db, one.schema())
		}
		switch {
		case errors.Is(err, pgsql.ErrNotMigrated):
		case err != nil:
			a.log.WarnContext(ctx, "cannot read the width of a store; it may differ", "store", s.Name, "error", err)
		case width != 0 && width != setting.Grid.Width():
			a.log.WarnContext(ctx, "the other stores have different widths: this one keeps its own")
			return 0
		default:
			width = setting.Grid.Width()
		}
	}
	return width
}
