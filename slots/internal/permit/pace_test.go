package permit

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/slots/internal/server"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// shareOf returns a share of a job of which so many checks a second may begin.
func shareOf(t *testing.T, db *sqlx.DB, perSecond int) *Share {
	t.Helper()
	stop, halt := context.WithCancelCause(t.Context())
	t.Cleanup(func() { halt(nil) })
	run := Run{
		Server: &server.Server{DB: db, Schema: "prescient", Lease: time.Minute, Logger: slog.New(slog.DiscardHandler)},
		Stop:   stop, Halt: halt, Work: t.Context(),
	}
	return &Share{limit: NewLimit(run, Rule{Job: 1, PerSecond: perSecond, Places: 4})}
}

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
	s := shareOf(t, db, 100)
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
	s := shareOf(t, f.DB, 100)
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
	f.Set(pgtest.Fault{At: 1, Of: func(text string) bool { return strings.Contains(text, "reserve_rate") }, Kind: pgtest.LateReply, Pause: time.Second})
	if n := take(); n > 0 {
		t.Errorf("%d instants were taken from a reply that came a second late", n)
	}
	f.Set(pgtest.Fault{})
	if take() == 0 {
		t.Error("no instants were taken from a reply that came in time")
	}
}
