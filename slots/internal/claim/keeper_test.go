package claim

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/slots/internal/db"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// A heartbeat that fails is repeated ten times a second, for as long as the database is away.
func TestTheLogHasAFailingHeartbeatOnceUntilOneSucceeds(t *testing.T) {
	t.Parallel()
	good, gone := pgtest.New(t), sqlx.MustOpen("postgres", "")
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s := &db.Server{Schema: "prescient", Lease: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	k := NewKeeper(&Session{Server: s})
	for _, db := range []*sqlx.DB{gone, gone, gone, good, good, gone, gone} {
		s.DB = db
		if got, want := k.renew(t.Context()), db == good; got != want {
			t.Fatalf("renewed %t, want %t\n%s", got, want, &log)
		}
	}
	if n := strings.Count(log.String(), "heartbeat failed"); n != 2 {
		t.Errorf("the log has %d failures, want one for each time that the database went away\n%s", n, &log)
	}
}
