package pgxjobs_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/jobs/stores"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// modes are the ways in which pgx carries out a statement.
var modes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, // the default
	pgx.QueryExecModeCacheDescribe,
	pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec,
	pgx.QueryExecModeSimpleProtocol,
}

// adapter opens a pool of pgx's own adapter for database/sql.
func adapter(t *testing.T, url string, mode pgx.QueryExecMode) *sqlx.DB {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.DefaultQueryExecMode = mode
	db := sqlx.NewDb(stdlib.OpenDB(*cfg), "pgx")
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestAClientNeedsNoOtherPoolThanOneOfPgxsAdapter(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			ctx, db := t.Context(), adapter(t, pgtest.URL(t), mode)
			client, err := jobs.NewClient(ctx, db, jobs.Config{})
			if err != nil {
				t.Fatal(err)
			}
			at := client.FromNow(48 * time.Hour)
			if got, err := client.Enqueue(ctx, jobs.OwnTx(db), check("1", at)); err != nil || got.Action != jobs.ActionInserted {
				t.Errorf("Enqueue: %v, %v", got, err)
			}
			list := []jobs.Request{check("1", at), check("2", at), check("ö'\\", at)}
			list[2].Payload = []byte(`{"a": ["ö", "\\", null]}`)
			if got, err := client.EnqueueMany(ctx, jobs.OwnTx(db), list); err != nil || got.Inserted != 2 || got.Kept != 1 {
				t.Errorf("EnqueueMany: %+v, %v", got, err)
			}
			if done, err := client.Cancel(ctx, jobs.OwnTx(db), list[1].Key()); err != nil || !done {
				t.Errorf("Cancel: %v, %v", done, err)
			}
			if done, err := admin.New(client).Pause(ctx, db, "remind"); err != nil || !done {
				t.Errorf("Pause: %v, %v", done, err)
			}
			if paused, err := admin.New(client).Paused(ctx, db); err != nil || len(paused) != 1 || paused[0].JobExec != "remind" {
				t.Errorf("Paused: %+v, %v", paused, err)
			}
		})
	}
}

func TestARunnerRefusesAPoolOfPgxsAdapter(t *testing.T) {
	t.Parallel()
	db := adapter(t, pgtest.URL(t), pgx.QueryExecModeCacheStatement)
	_, err := slots.NewRunner(t.Context(), slots.Config{DB: db, Registry: jobs.NewRegistry()})
	if err == nil || !strings.Contains(err.Error(), "pgxjobs.Open") {
		t.Error(err)
	}
}

func TestWhatIsMissingIsTheSameErrorThroughPgxsAdapter(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	for _, mode := range modes {
		if _, err := jobs.NewClient(t.Context(), adapter(t, url, mode), jobs.Config{}); !errors.Is(err, pgsql.ErrNotMigrated) {
			t.Errorf("%v: %v", mode, err)
		}
	}
}

func TestStoresAndSchedulesGoThroughPgxsAdapter(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			ctx, a, b := t.Context(), adapter(t, pgtest.URL(t), mode), adapter(t, pgtest.URL(t), mode)
			set, err := stores.New(ctx, []stores.Store{{Name: "a", DB: a}, {Name: "b", DB: b}}, jobs.Config{})
			if err != nil {
				t.Fatal(err)
			}
			from, err := set.Get("a")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := from.Client.Enqueue(ctx, jobs.OwnTx(a), check("1", from.Client.FromNow(48*time.Hour))); err != nil {
				t.Fatal(err)
			}
			if _, err := set.Drain(ctx, "a", "me"); err != nil {
				t.Fatal(err)
			}
			if moved, err := set.Move(ctx, stores.Move{From: "a", By: "me"}); err != nil || moved.Rows != 1 {
				t.Errorf("moved %+v, %v", moved, err)
			}
			var waiting int
			if err := b.GetContext(ctx, &waiting, "select count(*) from prescient.future_job where entity_key = '1'"); err != nil || waiting != 1 {
				t.Errorf("%d rows wait in the other store, %v", waiting, err)
			}
			plans, err := schedule.NewStore(ctx, b, schedule.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := plans.Create(ctx, b, schedule.Spec{ID: "s", Crontab: "0 9 * * *"}); err != nil {
				t.Error(err)
			}
			if list, share, err := schedule.Sample(reserved.Caller{}, ctx, b, "prescient"); err != nil || len(list) != 1 || share != 1 {
				t.Errorf("sample: %+v, %v, %v", list, share, err)
			}
		})
	}
}
