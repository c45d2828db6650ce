package slots_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/forecast"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event/forward"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/jobs/stores"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/daemon"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

func TestAPoolOfDatabaseSQLServesWhereOneOfSqlxDoes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ctx, db := t.Context(), w.db.DB
	if err := pgsql.Migrate(ctx, db, pgsql.DefaultSchema); err != nil {
		t.Fatal(err)
	}
	client, err := jobs.NewClient(ctx, db, jobs.Config{Now: w.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	schedules, err := schedule.NewStore(ctx, db, schedule.Config{Now: w.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := schedules.Create(ctx, db, schedule.Spec{ID: "report", Crontab: "0 6 * * *"}); err != nil {
		t.Error(err)
	}
	l, err := ledger.New(ctx, db, "", w.clock.Now)
	if err != nil || l.Grid() != w.ledger.Grid() {
		t.Error(l.Grid(), err)
	}

	check := func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		var is string
		err := tx.QueryRowContext(ctx, "select $1::text", job.EntityKey).Scan(&is)
		if err == nil && is != job.EntityKey {
			err = fmt.Errorf("got %q", is)
		}
		return nil, err
	}
	w.registry.Register("runner's pool", jobs.InTx(check))
	w.registry.Register("own pool", jobs.InTx(check), jobs.WithPool(db))
	for _, job := range []string{"runner's pool", "own pool"} {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		for key := range 10 {
			row := jobs.Request{JobExec: job, EntityName: "order", EntityKey: fmt.Sprint(key), CheckAt: slot(1)}
			if _, err := client.Enqueue(ctx, tx, row); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	result := w.run(slot(1), func(c *slots.Config) { c.DB = db })
	if result.Finished != 20 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
}

func TestAPoolThatIsNilIsRefused(t *testing.T) {
	t.Parallel()
	for name, db := range map[string]pgsql.Pool{"nil": nil, "a nil *sql.DB": (*sql.DB)(nil), "a nil *sqlx.DB": (*sqlx.DB)(nil)} {
		_, runner := slots.NewRunner(t.Context(), slots.Config{DB: db, Registry: jobs.NewRegistry()})
		_, set := stores.New(t.Context(), []stores.Store{{Name: "a", DB: db}}, jobs.Config{})
		_, look := forecast.Compute(t.Context(), forecast.Config{DB: db})
		_, publisher := forward.Start(t.Context(), forward.Config{DB: db})
		for call, err := range map[string]error{
			"slots.NewRunner": runner, "daemon.Run": daemon.Run(t.Context(), daemon.Config{Runner: slots.Config{DB: db, Registry: jobs.NewRegistry()}}),
			"stores.New": set, "forecast.Compute": look, "forward.Start": publisher,
		} {
			if err == nil || !strings.Contains(err.Error(), "must be set") && !strings.Contains(err.Error(), "database") {
				t.Errorf("%s, %s: %v", call, name, err)
			}
		}
	}
}
