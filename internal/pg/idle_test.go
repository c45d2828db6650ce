package pg_test

import (
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// A server ends idle sessions if idle_session_timeout is set, and all sessions when it restarts.
func TestASessionThatTheServerHasEndedWhileItWasIdleIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "sessions between its nodes would end as well")
	url := pgtest.URL(t)
	watching, err := pgsql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = watching.Close() })
	db, err := pgsql.Open(t.Context(), url, pg.Name("idle"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for name, use := range map[string]func() error{
		"a transaction": func() error {
			return pgsql.InTx(t.Context(), db, func(tx *sqlx.Tx) error {
				_, err := tx.ExecContext(t.Context(), `select`)
				return err
			})
		},
		"a message": func() error {
			var m pg.Message
			m.Do("select")
			return m.Commit(t.Context(), db, "set local jit = off")
		},
	} {
		if err := use(); err != nil {
			t.Fatal(name, err)
		}
		watching.MustExec(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'idle'`)
		await.True(t, "the session to end", func() bool {
			var sessions int
			if err := watching.Get(&sessions, `select count(*) from pg_stat_activity where application_name = 'idle'`); err != nil {
				t.Fatal(err)
			}
			return sessions == 0
		})
		time.Sleep(10 * time.Millisecond) // the end has a way through the network
		if err := use(); err != nil {
			t.Errorf("%s after the session has ended: %v", name, err)
		}
	}
}
