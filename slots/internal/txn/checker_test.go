package txn

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/leave"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/db"
	"github.com/prescient-go/prescient/slots/internal/permit"
	"github.com/prescient-go/prescient/slots/internal/record"
	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/slots/internal/slottest"
	"github.com/prescient-go/prescient/slots/internal/unit"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// bench has a claim of all rows of a slot, and a Checker for it.
type bench struct {
	slot *slottest.Slot
	*Checker
	units  []*unit.Unit
	tally  row.Tally
	later  []*unit.Unit
	refuse error
}

func setup(t *testing.T, rows int, register func(r *jobs.Registry)) *bench {
	t.Helper()
	b := &bench{slot: slottest.Open(t, rows, register)}
	b.exec(t, `create table public.written (entity_key text)`)
	w := &record.Writer{Session: b.slot.Session, Now: b.slot.At}
	records := record.New(w, record.Options{
		Leases: b.slot.Leases, Writing: record.NewWriting(100), Moment: b.slot.Moment,
		Count: func(n row.Tally, _ []row.Outcome) { b.tally.Plus(n) }, CountRefused: func(err error) { b.refuse = err },
	})
	c := b.slot.Claim(int64(rows))
	b.Checker = NewChecker(&Options{
		Server: b.slot.Server, Contexts: b.slot.Contexts, Records: records, Grace: time.Second,
		Groups: db.NewAdvisory(b.slot.Server, b.slot.At()), Panics: unit.NewPanics(slog.New(slog.DiscardHandler)),
	}, c)
	list := b.slot.Read(c)
	build := unit.NewBuilder(list)
	for i := range list {
		build.Add(i, b.slot.Def, b.slot.Number, func(jobs.FutureJob) string { return "" })
	}
	b.units = build.Units
	return b
}

func (b *bench) exec(t *testing.T, query string) {
	t.Helper()
	if _, err := b.slot.Server.DB.ExecContext(t.Context(), query); err != nil {
		t.Fatal(err)
	}
}

// check does the check of a unit.
func (b *bench) check(u *unit.Unit) error {
	u.Watch.Begin()
	ctx := unit.NewContext(b.claim.Ctx, u.Watch.Began().Add(u.Def.Timeout))
	defer ctx.End()
	return b.Check(ctx, u, &Chain{
		Permit: permit.Permit{Since: elapsed.Now()},
		Follow: func(*unit.Unit) *unit.Unit { return nil }, Later: func(u *unit.Unit) { b.later = append(b.later, u) },
	})
}

// written returns what checks have written.
func (b *bench) written(t *testing.T) []string {
	t.Helper()
	list := []string{}
	if err := b.slot.Server.DB.SelectContext(t.Context(), &list, `select entity_key from public.written order by 1`); err != nil {
		t.Fatal(err)
	}
	return list
}

var errBoom = errors.New("boom")

// writing registers a check that writes its row, and then returns err or runs then.
func writing(then func(tx *sqlx.Tx) error) func(r *jobs.Registry) {
	return func(r *jobs.Registry) {
		r.Register("job", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
			if _, err := tx.ExecContext(ctx, `insert into public.written values ($1)`, job.EntityKey); err != nil {
				return nil, err
			}
			return nil, then(tx)
		}))
	}
}

func TestTheWritesOfACheckAndItsOutcomeAreOneTransaction(t *testing.T) {
	t.Parallel()
	var lose func()
	for name, test := range map[string]struct {
		then  func(tx *sqlx.Tx) error
		is    func(err error) bool
		ended []string
	}{
		"a check that succeeds": {
			func(*sqlx.Tx) error { return nil }, func(err error) bool { return errors.Is(err, ErrRecorded) }, []string{"0 done"},
		},
		"a check that fails": {
			func(*sqlx.Tx) error { return errBoom }, func(err error) bool { return errors.Is(err, errBoom) }, []string{},
		},
		"a check that ends its transaction": {
			func(tx *sqlx.Tx) error { return tx.Rollback() }, func(err error) bool { return errors.Is(err, errEndedTx) }, []string{},
		},
		"a check whose claim another runner takes over": {
			nil, func(err error) bool { return err != nil && !errors.Is(err, ErrRecorded) }, []string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			then := test.then
			if then == nil {
				then = func(*sqlx.Tx) error { lose(); return nil }
			}
			b := setup(t, 1, writing(then))
			lose = func() { b.slot.Lose(b.claim) }
			if err := b.check(b.units[0]); !test.is(err) {
				t.Errorf("the check ends by: %v", err)
			}
			if diff := cmp.Diff(test.ended, b.slot.Ended()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if n := len(b.written(t)); n != len(test.ended) || b.tally.Finished != int64(n) {
				t.Errorf("%d rows are written, and %+v counted", n, b.tally)
			}
		})
	}
}

// A process may have stood still since it asked for the row. Its context ends a moment after it goes on.
func TestACheckDoesNotStartOnceItsLeaseMayHaveEnded(t *testing.T) {
	t.Parallel()
	started := false
	b := setup(t, 1, writing(func(*sqlx.Tx) error { started = true; return nil }))
	b.claim.Extend(elapsed.Now(), 0)
	if err := b.check(b.units[0]); !errors.Is(err, ErrAgain) || started {
		t.Errorf("started: %t, %v", started, err)
	}
	if diff := cmp.Diff([]string{}, b.slot.Ended()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestALockedRowIsCheckedAgainLater(t *testing.T) {
	t.Parallel()
	b := setup(t, 2, writing(func(*sqlx.Tx) error { return nil }))
	unlock := b.slot.Lock("0")
	if err := b.check(b.units[0]); !errors.Is(err, ErrLocked) {
		t.Errorf("while another session has its lock: %v", err)
	}
	if err := b.check(b.units[1]); !errors.Is(err, ErrRecorded) {
		t.Errorf("a free row: %v", err)
	}
	unlock()
	if err := b.check(b.units[0]); !errors.Is(err, ErrRecorded) {
		t.Errorf("once it is free: %v", err)
	}
	if diff := cmp.Diff([]string{"0", "1"}, b.written(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestABatchGoesOnWithoutItsLockedRows(t *testing.T) {
	t.Parallel()
	var keys []string
	b := setup(t, 3, func(r *jobs.Registry) {
		r.Register("job", jobs.BatchInTx(func(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
			for _, job := range batch {
				keys = append(keys, job.EntityKey)
			}
			return make([]jobs.Result, len(batch)), nil
		}))
	})
	defer b.slot.Lock("1")()
	if err := b.check(b.units[0]); !errors.Is(err, ErrRecorded) {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"0", "2"}, keys); diff != "" {
		t.Errorf("the call got (-want +got):\n%s", diff)
	}
	if len(b.later) != 1 || b.later[0].Rows[0].EntityKey != "1" {
		t.Errorf("%d units wait", len(b.later))
	}
}

// The lease is lost, and the function returns only after the grace period. The race detector sees what both change.
func TestACallThatWasAbandonedLeavesItsUnitAlone(t *testing.T) {
	t.Parallel()
	abandoned, returned := make(chan struct{}), make(chan struct{})
	b := setup(t, 2, func(r *jobs.Registry) {
		r.Register("job", jobs.BatchInTx(func(context.Context, *sqlx.Tx, []jobs.FutureJob) ([]jobs.Result, error) {
			<-abandoned
			return []jobs.Result{{}, {Err: leave.ErrToNext}}, nil
		}))
	})
	u := b.units[0]
	go func() {
		defer close(returned)
		if err := b.check(u); errors.Is(err, ErrRecorded) || len(b.later) > 0 {
			t.Errorf("%d units wait: %v", len(b.later), err)
		}
	}()
	for !u.Watch.Abandon(0) {
		time.Sleep(time.Millisecond)
	}
	b.claim.Release()
	close(abandoned)
	if n := len(u.Copy().Rows); n != 2 {
		t.Errorf("the unit has %d rows", n)
	}
	<-returned
}

func TestARowThatIsGoneIsNotChecked(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, writing(func(*sqlx.Tx) error { return nil }))
	b.exec(t, `delete from prescient.future_job`)
	if err := b.check(b.units[0]); !errors.Is(err, ErrRecorded) || len(b.written(t)) > 0 {
		t.Errorf("written %q: %v", b.written(t), err)
	}
}

func TestTheCommitOfACheckBeginsTheNext(t *testing.T) {
	t.Parallel()
	b := setup(t, 3, writing(func(*sqlx.Tx) error { return nil }))
	next := 1
	chain := &Chain{Follow: func(*unit.Unit) *unit.Unit {
		if next == len(b.units) {
			return nil
		}
		u := b.units[next]
		next++
		u.Watch.Begin()
		return u
	}}
	chain.Permit.Since = time.Now()
	b.units[0].Watch.Begin()
	for u := b.units[0]; u != nil; u = chain.Next() {
		ctx := unit.NewContext(b.claim.Ctx, u.Watch.Began().Add(u.Def.Timeout))
		if err := b.Check(ctx, u, chain); !errors.Is(err, ErrRecorded) {
			t.Errorf("%s: %v", u, err)
		}
		ctx.End()
	}
	if diff := cmp.Diff([]string{"0 done", "1 done", "2 done"}, b.slot.Ended()); diff != "" || next != 3 {
		t.Errorf("%d checks have begun (-want +got):\n%s", next, diff)
	}
}

// A server that is full answers the messages that begin checks, and refuses each record.
func TestErrorsOfTheDatabaseEndTheRunIfTheyLastForALease(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "its workers have no triggers")
	away, err := sqlx.Open("postgres", "postgres://localhost:1/none")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = away.Close() })
	const begin, record = "begin", "record"
	for name, test := range map[string]struct {
		fails  string
		before func(b *bench) (undo func()) // of a check between two that fail
		ends   bool
	}{
		"no check can begin":                         {begin, nil, true},
		"a check finds its row locked between":       {begin, func(b *bench) func() { return b.slot.Lock("0") }, false},
		"a check waits for its locked row between":   {begin, func(b *bench) func() { b.units[0].Wait = unit.Locked; return b.slot.Lock("0") }, false},
		"no outcome can be recorded":                 {record, nil, true},
		"a check finds its row locked between those": {record, func(b *bench) func() { return b.slot.Lock("0") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 1, writing(func(*sqlx.Tx) error { return nil }))
			b.exec(t, `create function public.refuse() returns trigger language plpgsql as $$
				begin raise 'no space left on device' using errcode = 'disk_full'; end $$;
				create trigger refuse before insert on prescient.future_job_history for each row execute function public.refuse()`)
			pool := b.slot.Server.DB
			fail := func() {
				t.Helper()
				if test.fails == begin {
					b.slot.Server.DB = away
				}
				if err := b.check(b.units[0]); !errors.Is(err, ErrAgain) {
					t.Fatalf("the check ends by: %v", err)
				}
				b.slot.Server.DB = pool
			}
			fail()
			for _, p := range []*patience{b.beginsOn(nil), &b.commits} {
				if since := p.since.Load(); since != nil {
					p.since.Store(new(since.Add(-2 * b.slot.Server.Lease)))
				}
			}
			if test.before != nil {
				undo := test.before(b)
				if err := b.check(b.units[0]); !errors.Is(err, ErrLocked) {
					t.Fatalf("the check of a locked row ends by: %v", err)
				}
				undo()
			}
			if fail(); (b.slot.Stop.Err() != nil) != test.ends {
				t.Errorf("the run ends: %t, want %t", !test.ends, test.ends)
			}
		})
	}
}
