package permit

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/db"
	"github.com/prescient-go/prescient/slots/internal/phase"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// paceOf returns the pace of a job of which so many checks a second may begin.
func paceOf(t *testing.T, pool *sqlx.DB, perSecond int) *pace {
	t.Helper()
	contexts := phase.New(t.Context(), 0)
	t.Cleanup(contexts.End)
	run := Options{
		Server:   &db.Server{DB: pool, Schema: "prescient", Lease: time.Minute, Logger: slog.New(slog.DiscardHandler)},
		Contexts: contexts,
	}
	return newPace(run, Rule{Job: 1, PerSecond: perSecond, AtOnce: 4}, "", new(replies))
}

// The next check of a claim must not begin at an instant that the database has not given.
func TestInstantsThatWereNotGivenAreNotThere(t *testing.T) {
	t.Parallel()
	pool, err := sqlx.Open("postgres", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	p := paceOf(t, pool, 100)
	for range 2 {
		if at, err := p.next(t.Context()); err == nil {
			t.Errorf("a check may begin at %s", at)
		}
	}
	if n := len(p.ahead); n > 0 {
		t.Errorf("%d instants are ahead", n)
	}
}

// How far ahead instants are was found out while the reply was on its way: where that has stood still, others have begun checks since by
// the instants after them.
func TestInstantsWhoseReplyWasLateAreNotUsed(t *testing.T) {
	t.Parallel()
	f := pgtest.OpenFaults(t, pgtest.URL(t), pgtest.Unprepared)
	p := paceOf(t, f.DB, 100)
	take := func() (instants int) {
		t.Helper()
		p.ahead = nil
		if err := p.refill(t.Context()); err != nil {
			t.Fatal(err)
		}
		return len(p.ahead)
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

// A check may wait after the gate, for its rows or a connection: such checks would begin all at once.
func TestAPermitWhoseInstantHasPassedWaitsForAnother(t *testing.T) {
	t.Parallel()
	next := elapsed.Now().Add(200 * time.Millisecond)
	p := paceOf(t, nil, 100)
	p.ahead = []time.Time{next}
	for name, pass := range map[string]Permit{
		"its instant is to come":   {bucket: &Bucket{pace: p}, at: elapsed.Now().Add(time.Minute)},
		"any instant will do":      {bucket: &Bucket{pace: p}},
		"it is subject to no rate": {bucket: &Bucket{}},
	} {
		if !pass.Renew(t.Context()) || len(p.ahead) == 0 {
			t.Errorf("%s: it has taken another", name)
		}
	}
	late := Permit{bucket: &Bucket{pace: p}, at: elapsed.Now().Add(-time.Hour)}
	if !late.Renew(t.Context()) || elapsed.Now().Before(next) || len(p.ahead) > 0 {
		t.Error("it has not waited for the next instant")
	}
	if !late.at.Equal(next) {
		t.Errorf("its instant is %s, want %s", late.at, next)
	}
}

// The checks that an instant is given back for come in the order of the list.
func TestInstantsThatAreGivenBackAreInOrder(t *testing.T) {
	t.Parallel()
	p := paceOf(t, nil, 100)
	at := func(n int) time.Time { return elapsed.Now().Truncate(0).Add(time.Duration(n) * time.Minute) }
	first, second, third := at(1), at(2), at(3)
	p.ahead = []time.Time{third}
	for _, spared := range []time.Time{first, second} {
		pass := Permit{bucket: &Bucket{pace: p}, at: spared}
		pass.GiveBack()
		pass.GiveBack() // once is enough
	}
	if diff := cmp.Diff([]time.Time{first, second, third}, p.ahead); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
