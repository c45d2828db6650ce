package slots

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/server"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// What the database has not given is nobody's: the next check, of a claim that goes on, must not begin by it.
func TestInstantsThatWereNotGivenAreNotThere(t *testing.T) {
	t.Parallel()
	db, err := sqlx.Open("postgres", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	r := newRun(t.Context(), &Runner{cfg: Config{DB: db, Workers: 4, Connections: 1, Page: 10, Lease: time.Second}, server: server.Server{DB: db, Lease: time.Second, Logger: slog.Default()}}, time.Time{}, selection{})
	r.work = t.Context()
	s := &share{limit: newLimit(r, 1, &jobs.Definition{PerSecond: 100}, 4)}
	for range 2 {
		if at, err := s.instant(t.Context()); err == nil {
			t.Errorf("a check may begin at %s", at)
		}
	}
	if n := len(s.pace.ahead); n > 0 {
		t.Errorf("%d instants are ahead", n)
	}
}

// How far ahead instants are was found out while the reply was on its way: where that has stood still, others have begun checks since by
// the instants after them.
func TestInstantsWhoseReplyWasLateAreNotUsed(t *testing.T) {
	t.Parallel()
	f := pgtest.OpenFaults(t, pgtest.URL(t), pgtest.Unprepared)
	r := newRun(t.Context(), &Runner{schema: "prescient", cfg: Config{DB: f.DB, Workers: 4, Connections: 1, Page: 10, Lease: time.Minute}, server: server.Server{DB: f.DB, Schema: "prescient", Lease: time.Minute, Logger: slog.Default()}}, time.Time{}, selection{kind: KindRun})
	r.work = t.Context()
	s := &share{limit: newLimit(r, 1, &jobs.Definition{PerSecond: 100}, 4)}
	take := func() (instants int) {
		t.Helper()
		s.pace.ahead = nil
		if err := s.takePace(t.Context()); err != nil {
			t.Fatal(err)
		}
		return len(s.pace.ahead)
	}
	for range 3 { // the first connects
		take()
	}
	f.Set(pgtest.Fault{At: 1, Of: func(text string) bool { return strings.Contains(text, "take_pace") }, Kind: pgtest.LateReply, Pause: time.Second})
	if n := take(); n > 0 {
		t.Errorf("%d instants were taken from a reply that came a second late", n)
	}
	f.Set(pgtest.Fault{})
	if take() == 0 {
		t.Error("no instants were taken from a reply that came in time")
	}
}
