package sql_test

import (
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/embedded"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestAHotStandbyIsReadAndSaysWhereToWrite(t *testing.T) {
	t.Parallel()
	db := open(t, standby(t).URL())
	setting, err := pgsql.ReadSetting(t.Context(), db, "")
	if err != nil || setting.Grid.Width() != 15*time.Minute {
		t.Errorf("the settings: %s, %v", setting.Grid.Width(), err)
	}
	if n := applied(t, db, ""); n == 0 {
		t.Error("no migration is applied")
	}
	for name, stmt := range map[string]statement{
		"job_list":           {query: pg.JobList.In(pgsql.DefaultSchema), args: []any{nil, nil, noon, afterAll, 10, noon, 0, 0, nil, 1 << 20, nil}},
		"ledger_trouble":     {query: pg.LedgerTrouble.In(pgsql.DefaultSchema), args: []any{noon, afterAll, 1000}},
		"ledger_jobs":        {query: pg.LedgerJobs.In(pgsql.DefaultSchema), args: []any{noon, afterAll, afterAll}},
		"ledger_late":        {query: pg.LedgerLate.In(pgsql.DefaultSchema), args: []any{noon, afterAll, 10}},
		"ledger_opened_late": {query: pg.LedgerOpenedLate.In(pgsql.DefaultSchema), args: []any{noon, afterAll, 60}},
		"ledger_slow":        {query: pg.LedgerSlow.In(pgsql.DefaultSchema), args: []any{noon, afterAll}},
		"why":                {query: pg.Why.In(pgsql.DefaultSchema), args: []any{"order", "1", nil, nil, 1000}},
		"history_list":       {query: pg.HistoryList.In(pgsql.DefaultSchema), args: []any{noon, afterAll, nil, nil, 10, nil, nil, 1 << 20, 0, nil}},
		"slot_waiting":       {query: pg.SlotWaiting.In(pgsql.DefaultSchema), args: []any{noon}},
		"claim_list":         {query: pg.ClaimList.In(pgsql.DefaultSchema), args: []any{nil}},
	} {
		err := pgsql.ReadTx(t.Context(), db, func(tx *sqlx.Tx) error {
			if _, err := tx.ExecContext(t.Context(), pg.SlotIndexOnly.In(pgsql.DefaultSchema)); err != nil {
				return err
			}
			_, err := tx.ExecContext(t.Context(), stmt.query, stmt.args...)
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	enqueue := func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(t.Context(), "select prescient.enqueue('remind', 'order', '1', check_at => '"+noon+"')")
		return pg.ExplainMissing(err)
	}
	var open pg.Message
	open.Add(pg.SlotOpen.In(pgsql.DefaultSchema), []any{noon, "run", 1, "me", 1, noon, 1, false}, nil)
	for name, err := range map[string]error{
		"Migrate":                         pgsql.Migrate(t.Context(), db, ""),
		"a transaction":                   pgsql.InTx(t.Context(), db, enqueue),
		"a reading one":                   pgsql.ReadTx(t.Context(), db, enqueue),
		"opening a slot":                  pg.ExplainMissing(pgsql.ReadTx(t.Context(), db, func(tx *sqlx.Tx) error { return open.Send(t.Context(), tx) })),
		"a message":                       open.Commit(t.Context(), db, "set local statement_timeout = 0"),
		"a transaction that does nothing": pgsql.InTx(t.Context(), db, func(*sqlx.Tx) error { t.Error("it runs"); return nil }),
	} {
		if !errors.Is(err, pgsql.ErrReadOnly) || errors.Is(err, pgsql.ErrNotMigrated) || !strings.Contains(err.Error(), "database.url") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheErrorIsTransientIfNoServerIsThePrimary(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(standby(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("target_session_attrs", "read-write")
	for _, hosts := range []string{query.Get("host"), query.Get("host") + "," + query.Get("host")} {
		query.Set("host", hosts)
		u.RawQuery = query.Encode()
		_, err := pgsql.Open(t.Context(), u.String())
		if !pg.IsTransient(err) || !strings.Contains(err.Error(), "no server matches target_session_attrs") {
			t.Errorf("%v", err)
		}
	}
}

// A pool that leads to a primary by a name, an address or a list of servers finds the new primary with a
// new connection alone.
func TestAPoolDialsAgainIfItsServerHasBecomeAStandby(t *testing.T) {
	t.Parallel()
	server := pgtest.Private(t, nil)
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	db := open(t, server.URL())
	if err := pgsql.Migrate(t.Context(), db, ""); err != nil {
		t.Fatal(err)
	}
	pgtest.StandBy(t, server)
	var pid int
	const session = "select pg_backend_pid()"
	for get := func() error { return db.GetContext(t.Context(), &pid, session) }; get() != nil; { // the old connections are dead
		continue
	}
	write := func(*sqlx.Tx) error { return nil }
	var m pg.Message
	m.Add("select 1", nil, func(row *sql.Rows) error { return row.Scan(new(int)) })
	for name, try := range map[string]func() error{
		"InTx":    func() error { return pgsql.InTx(t.Context(), db, write) },
		"Commit":  func() error { return m.Commit(t.Context(), db, "set local jit = off") },
		"BeginTx": func() error { _, err := db.BeginTxx(t.Context(), nil); return err },
		"BeginLazy": func() error {
			tx, err := pg.BeginLazy(t.Context(), db)
			if err != nil {
				return err
			}
			defer tx.End()
			return m.Send(t.Context(), tx)
		},
		"setting": func() error { _, err := pgsql.ReadSettingToWrite(reserved.Caller{}, t.Context(), db, ""); return err },
	} {
		before := get[int](t, db, session)
		if err := try(); !pg.IsTransient(err) {
			t.Errorf("%s: %v", name, err)
		}
		if after := get[int](t, db, session); after == before {
			t.Errorf("%s: the pool keeps its connection to the standby", name)
		}
	}
	if err := pgtest.Promote(t.Context(), server); err != nil {
		t.Fatal(err)
	}
	if err := pgsql.InTx(t.Context(), db, write); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// standby returns a server with a migrated database that has begun to recover and waits for a
// primary.
func standby(t *testing.T) *embedded.Server {
	t.Helper()
	server := pgtest.Private(t, nil)
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := pgsql.Migrate(t.Context(), open(t, server.URL()), ""); err != nil {
		t.Fatal(err)
	}
	pgtest.StandBy(t, server)
	if !get[bool](t, open(t, server.URL()), "select pg_is_in_recovery()") {
		t.Fatal("it is no standby")
	}
	return server
}

// libpq takes a connect_timeout below zero as none; prescient always has a timeout.
func TestANegativeConnectTimeoutIsTheDefault(t *testing.T) {
	t.Parallel()
	address, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	settings := address.Query()
	settings.Set("connect_timeout", "-1")
	address.RawQuery = settings.Encode()
	db, err := pgsql.Open(t.Context(), address.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if n := get[int](t, db, "select 1"); n != 1 {
		t.Error(n)
	}
}
