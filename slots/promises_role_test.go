package slots_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// registerAs registers a job for single rows and one for batches, whose checks take on a role that has no rights.
func (w *world) registerAs(role string, options ...jobs.Option) {
	w.t.Helper()
	check := func(ctx context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
		_, err := tx.ExecContext(ctx, role)
		return nil, err
	}
	w.registry.Register("row", jobs.InTx(check), options...)
	w.registry.Register("batch", jobs.BatchInTx(oneByOne(check)), options...)
	w.enqueue("row", slot(1), 5)
	w.enqueue("batch", slot(1), 5)
}

// sameRole sees whether all rows were recorded, and whether a pool's connection has its role back.
func (w *world) sameRole(db *sqlx.DB, want string, result slots.Result) {
	w.t.Helper()
	if result.Finished != 10 || result.State != slots.StateDone {
		w.t.Errorf("%+v", result)
	}
	var role string
	if err := db.Get(&role, `select current_user`); err != nil || role != want {
		w.t.Errorf("the role is %q, want %q; %v", role, want, err)
	}
}

func TestACheckMayTakeOnARoleThatMustNotRecord(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"set role pg_monitor", "set local role pg_monitor", "set session authorization pg_monitor"} {
		for name, options := range map[string][]pgsql.Option{"": nil, ", prepared": {pgsql.Prepared()}} {
			t.Run(role+name, func(t *testing.T) {
				t.Parallel()
				w := setupAt(t, pgtest.Direct(t))
				db := open(t, w.url, options...)
				var owner string
				if err := db.Get(&owner, `select current_user`); err != nil {
					t.Fatal(err)
				}
				w.registerAs(role)
				w.sameRole(db, owner, w.run(slot(1), alone, func(c *slots.Config) { c.DB = db }))
			})
		}
	}
}

// assuming has its connections take on a role, as an application may.
type assuming struct {
	driver.Connector
	role string
}

func (c assuming) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err == nil {
		_, err = conn.(driver.ExecerContext).ExecContext(ctx, fmt.Sprintf(`set role %q`, c.role), nil)
	}
	return conn, err
}

// The pool of a job may have chosen a role for its connections: it is the one that records, and the one that they keep, whatever a
// check takes on.
func TestThePoolOfAJobKeepsItsRole(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(driver.Connector) driver.Connector{
		"plain":    func(c driver.Connector) driver.Connector { return c },
		"lazy":     func(c driver.Connector) driver.Connector { return pg.NewConnector(c, false) },
		"prepared": func(c driver.Connector) driver.Connector { return pg.NewConnector(c, true) },
	} {
		for _, role := range []string{"set local role pg_monitor", "set role pg_monitor"} {
			t.Run(name+", "+role, func(t *testing.T) { keepsItsRole(t, wrap, role) })
		}
	}
}

func keepsItsRole(t *testing.T, wrap func(driver.Connector) driver.Connector, role string) {
	t.Parallel()
	w := setupAt(t, pgtest.Direct(t))
	var login, owner string
	if err := w.db.QueryRow(`select current_database() || '_login', current_user`).Scan(&login, &owner); err != nil {
		t.Fatal(err)
	}
	w.db.MustExec(fmt.Sprintf(`create role %q login noinherit in role %q, pg_monitor`, login, owner))
	t.Cleanup(func() { w.db.MustExec(fmt.Sprintf(`drop role %q`, login)) })
	to, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	to.User = url.User(login)
	base, err := pq.NewConnector(to.String())
	if err != nil {
		t.Fatal(err)
	}
	db := sqlx.NewDb(sql.OpenDB(wrap(assuming{base, owner})), "postgres")
	t.Cleanup(func() { _ = db.Close() })
	w.registerAs(role, jobs.WithPool(db))
	w.sameRole(db, owner, w.run(slot(1), alone))
}

// A guard against writing by hand: whoever means to write says so, as every driver does that begins a transaction to write in it.
func TestARunWritesWhereTransactionsAreReadOnlyUnlessTheySayOtherwise(t *testing.T) {
	t.Parallel()
	w := setupAt(t, pgtest.URL(t))
	w.registry.Register("plain", jobs.Row(done))
	w.registerAs("select 1")
	w.enqueue("plain", slot(1), 5)
	w.db.MustExec(`do $$ begin execute format('alter database %I set default_transaction_read_only = on', current_database()); end $$`)
	db := open(t, w.url)
	result := w.run(slot(1), alone, func(c *slots.Config) { c.DB = db })
	if result.Finished != 15 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
}

// A role or a database may have another default than read committed.
func TestRunnersStartAtOnceWhereTransactionsAreSerializable(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range 20 {
		w.registry.Register(fmt.Sprint("job", i), jobs.Row(done))
	}
	u, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("default_transaction_isolation", "serializable")
	u.RawQuery = query.Encode()
	db := open(t, u.String())
	var starting sync.WaitGroup
	for range 16 {
		starting.Go(func() {
			cfg := slots.Config{DB: db, Registry: w.registry, Now: w.clock.Now, Lease: 10 * time.Second}
			if _, err := slots.NewRunner(t.Context(), cfg); err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
}
