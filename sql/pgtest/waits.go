package pgtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
)

// Waits returns how many sessions of the test's database wait for a lock, on all nodes.
func Waits(t testing.TB, db *sqlx.DB) (n int) {
	t.Helper()
	query := "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
	if OnCitus() {
		query = "select coalesce(sum(result::int), 0) from run_command_on_all_nodes($$" + query + "$$) where success"
	}
	if err := db.GetContext(t.Context(), &n, query); err != nil {
		t.Fatal(err)
	}
	return n
}

// AwaitWaits returns once at least n sessions of the test's database wait for locks.
func AwaitWaits(t testing.TB, db *sqlx.DB, n int) {
	t.Helper()
	await.True(t, fmt.Sprintf("%d sessions to wait for locks", n), func() bool { return Waits(t, db) >= n })
}

// AwaitClock returns once the server's clock has passed an instant, and what it shows.
func AwaitClock(t testing.TB, db *sqlx.DB, instant time.Time) (now time.Time) {
	t.Helper()
	await.True(t, "the server's clock", func() bool {
		if err := db.GetContext(t.Context(), &now, "select clock_timestamp()"); err != nil {
			t.Fatal(err)
		}
		return now.After(instant)
	})
	return now.UTC()
}
