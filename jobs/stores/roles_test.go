package stores_test

import (
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/jobs/stores"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// An application chooses stores, enqueues and cancels with the least of rights, and an operator
// moves.
func TestEachRoleMayDoItsPartInStores(t *testing.T) {
	pgtest.NotOnCitus(t, "there are no roles; see docs/citus.md")
	t.Parallel()
	url := pgtest.Direct(t) // PgBouncer takes no role at the start
	open := func(role string) *sqlx.DB {
		db, err := pgsql.Open(t.Context(), url, pgsql.Param("role", role))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	superuser := open("none")
	schemas := []pgsql.Schema{"stores_roles_a", "stores_roles_b"}
	for _, schema := range schemas {
		pgtest.DropRoles(t, superuser, schema.String())
		if err := pgsql.Migrate(t.Context(), superuser, schema); err != nil {
			t.Fatal(err)
		}
		if err := pgsql.MakeRoles(t.Context(), superuser, schema); err != nil {
			t.Fatal(err)
		}
	}
	as := func(role pg.Role, now func() time.Time) *stores.Set {
		t.Helper()
		var list []stores.Store
		for i, schema := range schemas {
			list = append(list, stores.Store{Name: []string{"a", "b"}[i], DB: open(role.In(schema)), Schema: schema.String()})
		}
		set, err := stores.New(t.Context(), list, jobs.Config{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	app, operator := as(pg.App, nil), as(pg.Operator, clock) // only a runner may give a clock
	w := &world{t: t, set: app}
	for i, s := range []*stores.Store{w.store("a"), w.store("b")} {
		for _, j := range keys(20, 5)[i*5:] { // of which most are in both
			if _, err := s.Client.Enqueue(t.Context(), jobs.OwnTx(s.DB), j); err != nil {
				t.Fatal(err)
			}
		}
	}
	a, err := operator.Get("a")
	if err != nil {
		t.Fatal(err)
	}
	schedules, err := schedule.NewStore(t.Context(), a.DB, schedule.Config{Schema: a.Schema, Now: clock})
	if err == nil {
		_, err = schedules.Create(t.Context(), a.DB, schedule.Spec{ID: "hourly", Crontab: "0 * * * *"})
	}
	if err == nil {
		_, err = admin.New(a.Client).Pause(t.Context(), a.DB, "remind")
	}
	if err == nil {
		_, err = operator.Drain(t.Context(), "a", "me")
	}
	if err != nil {
		t.Fatal(err)
	}
	moved, err := operator.Move(t.Context(), stores.Move{From: "a"})
	if err != nil || moved.Rows != 20 || moved.Schedules != 1 || moved.Replaced != 15 || len(moved.Paused["b"]) != 1 {
		t.Errorf("%+v, %v", moved, err)
	}
	if err := app.Refresh(t.Context()); err != nil || choice(t, app, "1") != "b" {
		t.Errorf("an application does not learn that a is being drained: %v", err)
	}
	if _, err := app.Move(t.Context(), stores.Move{From: "a"}); !pg.HasState(err, "42501") {
		t.Errorf("an application may move rows: %v", err)
	}
	if _, err := app.Drain(t.Context(), "b", "me"); !pg.HasState(err, "42501") {
		t.Errorf("an application may drain a store: %v", err)
	}
	b := w.store("b")
	if found, err := b.Client.Cancel(t.Context(), jobs.OwnTx(b.DB), check("1", now).Key()); !found || err != nil {
		t.Error(found, err)
	}
}
