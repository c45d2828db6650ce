package round

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/claim"
	"github.com/prescient-go/prescient/slots/internal/db"
	"github.com/prescient-go/prescient/slots/internal/lane"
	"github.com/prescient-go/prescient/slots/internal/permit"
	"github.com/prescient-go/prescient/slots/internal/phase"
	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/slots/internal/txn"
	"github.com/prescient-go/prescient/slots/internal/unit"
)

// bench has a round of checks of one job. No database answers.
type bench struct {
	Round
	workers   permit.Semaphore
	abandoned atomic.Int32
}

// setup returns a bench of rows with the ids 1 to n, whose checks run two at a time.
func setup(t *testing.T, ctx context.Context, n int, check jobs.CheckFunc, options ...jobs.Option) *bench {
	t.Helper()
	pool, err := sqlx.Open("postgres", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	registry := jobs.NewRegistry()
	registry.Register("job", jobs.Row(check), options...)
	def, _ := registry.Lookup("job")
	log := slog.New(slog.DiscardHandler)
	server := &db.Server{DB: pool, Lease: time.Hour, Logger: log}
	contexts := phase.New(ctx, 0)
	t.Cleanup(contexts.End)
	session := &claim.Session{Contexts: contexts, Server: server, Turn: make(chan struct{}, 1)}
	b := &bench{workers: make(permit.Semaphore, 2)}
	caller := &Caller{
		Contexts: contexts, Log: log, Panics: unit.NewPanics(log), Moment: func() guard.Moment { return guard.Moment{Now: time.Now()} },
		Session: session, Leases: claim.NewKeeper(session), Rows: 100, Abandoned: func() { b.abandoned.Add(1) },
	}
	var rows []jobs.FutureJob
	for i := range n {
		rows = append(rows, jobs.FutureJob{ID: int64(i + 1), JobExec: "job", EntityKey: fmt.Sprint(i + 1)})
	}
	units := unit.NewBuilder(rows)
	for i := range rows {
		units.Add(i, def, 1, func(jobs.FutureJob) string { return "" })
	}
	lease := claim.NewLease()
	lease.Extend(elapsed.Now(), server.Lease)
	lease.Begin(contexts.Checks)
	b.Round = Round{
		Caller: caller, Lease: lease, ReadAt: elapsed.Now(), Started: func(int64) {},
		Queues: []lane.Queue{{Gate: permit.NewGate(contexts.Stop, []permit.Semaphore{b.workers}, nil), AtOnce: 2, Units: units.Units}},
	}
	t.Cleanup(lease.Release)
	b.Leases.Add(lease)
	return b
}

// do does the round, and returns all outcomes and the last batch.
func (b *bench) do() (outcomes []row.Outcome, last Batch) {
	for batch := range b.Do() {
		outcomes, last = append(outcomes, batch.Outcomes...), batch
	}
	slices.SortFunc(outcomes, func(a, b row.Outcome) int { return int(a.ID - b.ID) })
	return outcomes, last
}

// free waits until no check has a worker.
func (b *bench) free(t *testing.T) {
	t.Helper()
	await.True(t, "the workers to be free", func() bool { return len(b.workers) == 0 })
}

func TestEachRowEndsAsItsFunctionDoes(t *testing.T) {
	t.Parallel()
	b := setup(t, t.Context(), 5, func(_ context.Context, j jobs.FutureJob) (*time.Time, error) {
		switch j.ID {
		case 2:
			return nil, errors.New("boom")
		case 3:
			panic("oops")
		case 4:
			runtime.Goexit()
		}
		return nil, nil
	}, jobs.Retry(0))
	outcomes, last := b.do()
	var got []string
	for _, o := range outcomes {
		first, _, _ := strings.Cut(o.Verdict.Error, "\n")
		got = append(got, fmt.Sprintf("%d %s %s", o.ID, o.Verdict.Outcome, first))
	}
	want := []string{"1 done ", "2 failed boom", "3 failed panic: oops", "4 failed the check called runtime.Goexit", "5 done "}
	if diff := cmp.Diff(want, got); diff != "" || last.Cut || len(last.Again) > 0 {
		t.Errorf("cut %t, %d again (-want +got):\n%s", last.Cut, len(last.Again), diff)
	}
	b.free(t)
}

func TestACheckDoesNotKeepBackTheOutcomesOfOthers(t *testing.T) {
	t.Parallel()
	recorded := make(chan struct{})
	b := setup(t, t.Context(), 2, func(_ context.Context, j jobs.FutureJob) (*time.Time, error) {
		if j.ID == 2 {
			<-recorded
		}
		return nil, nil
	})
	var batches int
	for batch := range b.Do() {
		if batches++; batches == 1 {
			if len(batch.Outcomes) != 1 || batch.Done != 1 || batch.Last {
				t.Errorf("the first batch: %+v", batch)
			}
			close(recorded)
		}
	}
	if batches != 2 {
		t.Errorf("%d batches, want 2", batches)
	}
}

func TestACheckThatIgnoresItsTimeoutIsAbandoned(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"its claim goes on": false, "the lease of its claim is lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began, end := make(chan struct{}), make(chan struct{})
			b := setup(t, t.Context(), 1, func(context.Context, jobs.FutureJob) (*time.Time, error) {
				close(began)
				<-end
				return nil, nil
			}, jobs.Timeout(time.Millisecond), jobs.Retry(0))
			t.Cleanup(func() { close(end) })
			if lost {
				go func() { <-began; b.Leases.Lose(b.Lease) }()
			}
			outcomes, _ := b.do()
			if len(outcomes) != 1 || !strings.Contains(outcomes[0].Verdict.Error, unit.ErrIgnored.Error()) || b.abandoned.Load() != 1 {
				t.Errorf("%d are abandoned, and the outcomes are %+v", b.abandoned.Load(), outcomes)
			}
			b.free(t)
		})
	}
}

func TestAStoppedRoundSaysThatRowsWereNotChecked(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	b := setup(t, ctx, 10, func(context.Context, jobs.FutureJob) (*time.Time, error) {
		stop()
		return nil, nil
	})
	outcomes, last := b.do()
	if len(outcomes) == 0 || len(outcomes) > 2 || !last.Cut {
		t.Errorf("%d of 10 rows have an outcome; cut %t", len(outcomes), last.Cut)
	}
}

func TestACheckWhoseLeaseIsLostHasNoOutcome(t *testing.T) {
	t.Parallel()
	var b *bench
	b = setup(t, t.Context(), 1, func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
		b.Leases.Lose(b.Lease)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if outcomes, last := b.do(); len(outcomes) > 0 || !last.Cut {
		t.Errorf("%d outcomes; cut %t", len(outcomes), last.Cut)
	}
	b.free(t)
}

// stale returns a round whose only row was read long ago, and whose check has begun. Another goroutine reads until the
// end of the test.
func stale(t *testing.T, ctx context.Context, check jobs.CheckFunc) (*Round, *unit.Unit, *queue, *txn.Chain) {
	t.Helper()
	b := setup(t, ctx, 1, check, jobs.Timeout(time.Minute))
	b.ReadAt = elapsed.Now().Add(-fresh)
	rd := &b.Round
	rd.results = newResults(rd)
	q := &queue{Queue: b.Queues[0]}
	permit, ok := q.Gate.Acquire(t.Context())
	u := rd.next(q, nil)
	if !ok || u == nil {
		t.Fatal("the check has not begun")
	}
	reads, over := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(over) })
	go func() { _ = b.Session.InTurn(t.Context(), func() error { close(reads); <-over; return nil }) }()
	<-reads
	return rd, u, q, &txn.Chain{Permit: permit}
}

// However many look for their rows, they have what connections the run has, and their time is not that of their checks.
func TestALookForARowWaitsForThoseWhoReadAndIsNotInTheTimeoutOfTheCheck(t *testing.T) {
	t.Parallel()
	var ends time.Time
	rd, u, q, chain := stale(t, t.Context(), func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
		ends, _ = ctx.Deadline()
		return nil, nil
	})
	began := u.Watch.Began()
	rd.check(u, q, chain)
	if took := ends.Sub(began); took < time.Second+u.Def.Timeout {
		t.Errorf("the check ends %s after the look for its row began: the look takes a second, and the check has %s", took, u.Def.Timeout)
	}
}

// The process may have stood still meanwhile.
func TestACheckDoesNotStartOnceItsLeaseHasEndedDuringALook(t *testing.T) {
	t.Parallel()
	started := false
	rd, u, q, chain := stale(t, t.Context(), func(context.Context, jobs.FutureJob) (*time.Time, error) {
		started = true
		return nil, nil
	})
	rd.Lease.Extend(elapsed.Now(), 0)
	rd.check(u, q, chain)
	if started {
		t.Error("it has started")
	}
}

// A run that is stopped while others read does not know whether a row is there.
func TestARowThatAStopKeepsFromBeingLookedForIsNotTakenForGone(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	rd, u, _, _ := stale(t, ctx, func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil })
	stop()
	if rd.isGone(u) {
		t.Error("it is left behind unchecked, in a slot that may be closed")
	}
}
