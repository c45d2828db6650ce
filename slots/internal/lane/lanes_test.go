package lane

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/db"
	"github.com/prescient-go/prescient/slots/internal/permit"
	"github.com/prescient-go/prescient/slots/internal/phase"
	"github.com/prescient-go/prescient/slots/internal/unit"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// lanesOf returns lanes with the jobs of a registry, numbered in the order of their names from 1 on.
func lanesOf(t *testing.T, register func(r *jobs.Registry), change func(o *Options)) (*Lanes, []*jobs.Definition) {
	t.Helper()
	contexts := phase.New(t.Context(), 0)
	t.Cleanup(contexts.End)
	o := Options{
		Contexts: contexts, Panics: unit.NewPanics(slog.New(slog.DiscardHandler)), Bounds: NewBounds(8, 4, nil, nil), Page: 100,
		NewLimit: func(int64, *jobs.Definition, int) *permit.Limit { return new(permit.Limit) },
	}
	if change != nil {
		change(&o)
	}
	s, r := New(o), jobs.NewRegistry()
	register(r)
	defs := slices.Collect(r.All())
	for i, def := range defs {
		s.Add(int64(i+1), def, true)
	}
	return s, defs
}

func check(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }

func checkTx(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) { return nil, nil }

func TestJobsWhoseChecksWaitForTheSameShareALane(t *testing.T) {
	t.Parallel()
	s, _ := lanesOf(t, func(r *jobs.Registry) {
		r.Register("1 plain", jobs.Row(check))
		r.Register("2 plain", jobs.Row(check))
		r.Register("3 tx", jobs.InTx(checkTx))
		r.Register("4 tx", jobs.InTx(checkTx))
		r.Register("5 two at once", jobs.Row(check), jobs.Concurrency(2))
		r.Register("6 two at once", jobs.Row(check), jobs.Concurrency(2))
		r.Register("7 limited", jobs.Row(check), jobs.AtMost(3))
	}, nil)
	same := func(a, b int64) bool { return s.Of(a) == s.Of(b) }
	if !same(1, 2) || !same(3, 4) || same(1, 3) || same(1, 5) || same(5, 6) || same(1, 7) {
		t.Error("a slow or limited job would hold up others")
	}
	for number, want := range map[int64]Spec{
		1: {AtOnce: 8, Needs: Workers, Scarce: Workers},
		3: {AtOnce: 4, Needs: Workers | Connections, Scarce: Connections},
		5: {Own: true, AtOnce: 2, Needs: Workers},
		7: {Own: true, AtOnce: 8, Needs: Workers},
	} {
		if diff := cmp.Diff(want, s.Of(number).Spec); diff != "" {
			t.Errorf("job %d (-want +got):\n%s", number, diff)
		}
	}
}

// units returns a unit for each row of job 1, whose limit key is its entity's.
func units(def *jobs.Definition, keys ...string) []*unit.Unit {
	var rows []jobs.FutureJob
	for i, key := range keys {
		rows = append(rows, jobs.FutureJob{ID: int64(i + 1), EntityKey: key})
	}
	b := unit.NewBuilder(rows)
	for i := range rows {
		b.Add(i, def, 1, func(jobs.FutureJob) string { return "" })
	}
	return b.Units
}

func TestUnitsWithoutAPermitAreParked(t *testing.T) {
	t.Parallel()
	server := &db.Server{
		DB: pgtest.New(t), Schema: "prescient", Citus: pgtest.OnCitus(), Lease: time.Minute, Logger: slog.New(slog.DiscardHandler),
	}
	// make returns lanes of a run of its own.
	make := func(token int64) (*Lanes, *jobs.Definition) {
		s, defs := lanesOf(t, func(r *jobs.Registry) {
			r.Register("job", jobs.Row(check), jobs.AtMost(1), jobs.LimitBy(func(j jobs.FutureJob) string { return j.EntityKey }))
		}, func(o *Options) {
			o.NewLimit = func(number int64, d *jobs.Definition, atOnce int) *permit.Limit {
				return permit.NewLimit(
					permit.Options{
						Server: server, Contexts: o.Contexts, Token: token, Locks: db.NewAdvisory(server, time.Time{}),
						Inside: new(permit.Inside),
					},
					permit.Rule{Job: number, Name: d.Name, AtMost: d.AtMost, AtOnce: atOnce})
			}
		})
		return s, defs[0]
	}
	one, def := make(1)
	other, _ := make(2)
	_, parked, err := other.Admit(t.Context(), permit.NewSet(), []*Lane{other.Of(1)}, units(def, "b"))
	if err != nil || len(parked) > 0 {
		t.Fatalf("%d are parked: %v", len(parked), err)
	}
	list := units(def, "a", "a", "b", "c")
	list[3].Verdict = &guard.Verdict{Outcome: jobs.OutcomeSkipped} // it needs no call, and so no permit
	queues, parked, err := one.Admit(t.Context(), permit.NewSet(), []*Lane{one.Of(1)}, list)
	var admitted []string
	for _, q := range queues {
		for _, u := range q.Units {
			admitted = append(admitted, strconv.FormatInt(u.Rows[0].ID, 10)+" "+u.Rows[0].EntityKey)
		}
	}
	slices.Sort(admitted)
	if diff := cmp.Diff([]string{"1 a", "2 a", "4 c"}, admitted); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if len(parked) != 1 || parked[0].Rows[0].EntityKey != "b" {
		t.Errorf("%d are parked", len(parked))
	}
}

func TestAnAccountLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s, _ := lanesOf(t, func(r *jobs.Registry) { r.Register("job", jobs.Row(check)) }, nil)
	l, changes := s.Of(1), 0
	a := l.NewAccount(20, func() { changes++ })
	a.Read(20, 4000)
	a.Started(12)
	a.CountWaiting(500, 300)
	a.AddLocked(100)
	a.Release(5)
	got := []int64{
		l.load.unstarted.Load(), l.load.kept.Load(), l.load.parked.Load(),
		s.memory.rows.Load(), s.memory.bytes.Load(), s.memory.locked.Load(),
	}
	if diff := cmp.Diff([]int64{8, 15, 300, 15, 3000, 600}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if a.Unstarted() != 8 || changes == 0 {
		t.Errorf("%d wait to start; the run was woken %d times", a.Unstarted(), changes)
	}
	a.Close()
	got = []int64{
		l.load.unstarted.Load(), l.load.kept.Load(), l.load.parked.Load(),
		s.memory.rows.Load(), s.memory.bytes.Load(), s.memory.locked.Load(),
	}
	if diff := cmp.Diff(make([]int64, 6), got); diff != "" || s.taken.Load() != 20 {
		t.Errorf("after the claim (-want +got):\n%s", diff)
	}
}

func TestAPanicOfTheKeyFunctionCountsToTheEmptyKey(t *testing.T) {
	t.Parallel()
	s, _ := lanesOf(t, func(r *jobs.Registry) {
		r.Register("job", jobs.Row(check), jobs.AtMost(1), jobs.LimitBy(func(jobs.FutureJob) string { panic(errors.New("oops")) }))
	}, nil)
	if key := s.Of(1).LimitKey(jobs.FutureJob{}); key != "" {
		t.Errorf("the key is %q", key)
	}
}
