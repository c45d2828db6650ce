package pgxjobs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/pgxjobs"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// said is the result of a call.
type said struct {
	Call   string
	Result any
	Err    string
}

// story makes every call of a client, in an order that leaves something to each of them.
func (w *world) story(db jobs.Tx) (all []said) {
	c, ctx := w.client, w.t.Context()
	tell := func(call string, err error, result ...any) {
		s := said{Call: call, Result: result}
		if err != nil {
			s.Err = err.Error()
		}
		all = append(all, s)
	}
	payload := check("1", slot(3))
	payload.Payload, payload.GroupKey, payload.ItemKey = json.RawMessage(`{"text": "\\ \" ' \t, {\"ü\": [1, null]}"}`), "a \\ \"group\"", "item\t'1'"
	anonymous := check("5", slot(2).Add(time.Microsecond))
	anonymous.Anonymous = true
	anonymous.Within, payload.Within = 6*time.Hour, time.Hour

	e, err := c.Enqueue(ctx, db, payload)
	tell("Enqueue", err, e.Slot, e.Action)
	e, err = c.Enqueue(ctx, db, payload, jobs.Replace)
	tell("Enqueue, replace", err, e.Slot, e.Action)
	n, err := c.EnqueueMany(ctx, db, []jobs.Request{check("2", slot(1)), check("3", slot(2)), payload, anonymous, check("2", slot(9))}, jobs.PushBack(time.Hour))
	tell("EnqueueMany", err, n)
	many := func(yield func(jobs.Request) bool) {
		for i := range 3 {
			row := payload
			row.EntityKey, row.Anonymous = fmt.Sprint("stream ", i), i == 1
			if row.Anonymous {
				row.ItemKey, row.GroupKey, row.Payload = "", "", nil
			}
			row.CheckAt = slot(i - 1).Add(time.Microsecond)
			if !yield(row) {
				return
			}
		}
	}
	n, err = c.EnqueueAll(ctx, db, many)
	tell("EnqueueAll", err, n)
	n, err = c.EnqueueAll(ctx, db, iter.Seq[jobs.Request](many), jobs.Replace)
	tell("EnqueueAll, replace", err, n)
	at, found, err := c.Reschedule(ctx, db, check("2", now).Key(), slot(7).Add(time.Nanosecond))
	tell("Reschedule", err, at, found)
	at, found, err = c.PushBack(ctx, db, check("3", now).Key(), slot(8), 24*time.Hour)
	tell("PushBack", err, at, found)
	at, found, err = c.PushBack(ctx, db, check("nobody", now).Key(), slot(8), 0)
	tell("PushBack, of nothing", err, at, found)
	found, err = c.Cancel(ctx, db, check("2", now).Key())
	tell("Cancel", err, found)
	ended, err := c.CancelEntity(ctx, db, "order", "3")
	tell("CancelEntity", err, ended)
	list, err := seq.Collect(admin.New(c).List(ctx, db, admin.Filter{JobExec: "remind", From: slot(0), To: slot(9)}))
	tell("List", err, list)
	list, err = admin.New(c).Show(ctx, db, "order", "1")
	tell("Show", err, list)
	history, err := seq.Collect(admin.New(c).History(ctx, db, admin.HistoryFilter{Outcome: jobs.OutcomeCancelled}))
	tell("History", err, len(history))
	history, err = seq.Collect(admin.New(c).History(ctx, db, admin.HistoryFilter{EntityName: "order", EntityKey: "1"}))
	tell("Trace", err, history)
	stats, err := admin.New(c).Stats(ctx, db, time.Time{}, time.Time{})
	tell("Stats", err, stats)
	events, err := admin.New(c).Timeline(ctx, db, payload.Key())
	tell("Why", err, events)
	names, err := admin.New(c).JobNames(ctx, db, 10)
	tell("Names", err, names)
	found, err = admin.New(c).Pause(ctx, db, "remind")
	tell("Pause", err, found)
	paused, err := admin.New(c).Paused(ctx, db)
	tell("Paused", err, len(paused), len(paused) == 1 && time.Since(paused[0].PausedAt) < time.Minute)
	found, err = admin.New(c).Resume(ctx, db, "remind")
	tell("Resume", err, found)
	at, err = admin.New(c).ServedAt(ctx, db, "remind")
	tell("ServedAt", err, at)
	retried, waiting, err := admin.New(c).Retry(ctx, db, admin.RetryFilter{Since: slot(0), Limit: 10}, slot(4).Add(time.Nanosecond))
	tell("Retry", err, retried, waiting)
	pruned, err := admin.New(c).PreviewPrune(ctx, db, slot(0))
	tell("Prune", err, len(pruned) > 0)
	return all
}

// alike leaves out what differs from one way to another: ids, who connects as what, the server's
// clock, and the actor, who is that of a transaction.
var alike = cmp.Options{
	cmp.AllowUnexported(jobs.FutureJob{}),
	cmpopts.IgnoreFields(jobs.FutureJob{}, "ID", "EnqueuedAt"),
	cmpopts.IgnoreFields(admin.HistoryRow{}, "FinishedAt"),
	cmpopts.IgnoreFields(admin.TimelineEntry{}, "ID", "At", "App", "Actor"),
}

func TestEveryCallSaysAndDoesTheSameThroughEveryDriver(t *testing.T) {
	t.Parallel()
	var want []said
	for _, name := range []string{
		"lib/pq, a transaction", "lib/pq, a pool", "pgx, a transaction", "pgx, a pool", "pgx, through its stdlib",
	} {
		w := setup(t)
		db, end := w.all()[name]()
		if err := jobs.SetActor(t.Context(), db, "alice"); (err == nil) != strings.HasSuffix(name, "a transaction") {
			t.Errorf("%s: %v", name, err)
		}
		got := w.story(db)
		if err := end(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if actors := w.count("select count(*) from prescient.future_job where enqueued_actor = 'alice'"); (actors > 0) != strings.HasSuffix(name, "a transaction") {
			t.Errorf("%s: %d rows were asked for by alice", name, actors)
		}
		if want == nil {
			want = got
			for _, s := range want {
				if s.Err != "" {
					t.Errorf("%s: %s", s.Call, s.Err)
				}
			}
		}
		if diff := cmp.Diff(want, got, alike); diff != "" {
			t.Errorf("%s: (-lib/pq, +it)\n%s", name, diff)
		}
		if copied := w.copies.Load(); (copied > 0) != (name == "pgx, a transaction" || name == "pgx, a pool") {
			t.Errorf("%s: pgx has copied %d times", name, copied)
		}
	}
}

// What has no parameters comes as a text, as the role writes it.
func TestEveryCallIsUnderstoodHoweverItsRoleWritesTimes(t *testing.T) {
	pgtest.NotOnCitus(t, "a setting of a database or a role is of one node")
	t.Parallel()
	w := setup(t)
	w.exec("do $$ begin execute format('alter database %I set datestyle to German', current_database()); end $$")
	w.pool.Reset()
	client, err := jobs.NewClient(t.Context(), pgxjobs.Open(w.pool), jobs.Config{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	w.client = client
	db, _ := w.all()["pgx, a pool"]()
	for _, s := range w.story(db) {
		if s.Err != "" {
			t.Errorf("%s: %s", s.Call, s.Err)
		}
	}
}

func TestAPoolOrATransactionThatIsNilIsNamed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	if _, err := jobs.NewClient(t.Context(), pgxjobs.Open(nil), jobs.Config{}); err == nil || !strings.Contains(err.Error(), "there is no pool of pgx: pool is nil") {
		t.Error(err)
	}
	if _, err := w.client.Enqueue(t.Context(), pgxjobs.Tx(nil), check("1", now)); err == nil || !strings.Contains(err.Error(), "there is no transaction of pgx: tx is nil") {
		t.Error(err)
	}
}

func TestErrorsAreTheSameThroughEveryDriver(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ctx := t.Context()
	elsewhere := connect(t, pgtest.Empty(t))
	if _, err := w.client.Enqueue(ctx, jobs.OwnTx(w.db), check("1", slot(1))); err != nil {
		t.Fatal(err)
	}
	one := func(yield func(jobs.Request) bool) { yield(check("1", slot(1))) }
	for name, begin := range w.all() {
		for call, enqueue := range map[string]func(db jobs.Tx) error{
			"Enqueue": func(db jobs.Tx) error {
				_, err := w.client.Enqueue(ctx, db, check("1", slot(1)), jobs.Reject)
				return err
			},
			"EnqueueAll": func(db jobs.Tx) error {
				_, err := w.client.EnqueueAll(ctx, db, one, jobs.Reject)
				return err
			},
		} {
			db, end := begin()
			if err := enqueue(db); !errors.Is(err, jobs.ErrExists) {
				t.Errorf("%s, %s: %v", name, call, err)
			}
			_ = end()
		}
		db, end := elsewhere.all()[name]()
		if _, err := w.client.Enqueue(ctx, db, check("1", slot(1))); !errors.Is(err, pgsql.ErrNotMigrated) {
			t.Errorf("%s, where nothing is: %v", name, err)
		}
		_ = end()
	}
	if _, err := jobs.NewClient(ctx, pgxjobs.Open(elsewhere.pool), jobs.Config{}); !errors.Is(err, pgsql.ErrNotMigrated) {
		t.Error(err)
	}
	if n := w.count("select count(*) from prescient.future_job"); n != 1 {
		t.Errorf("%d rows", n)
	}
}

func TestAStreamThatCannotBeCopiedLeavesTheTransactionAsItWas(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ctx := t.Context()
	tx := w.begin()
	stream := func(bad bool) iter.Seq[jobs.Request] {
		return func(yield func(jobs.Request) bool) {
			for i := range 12_000 {
				row := check(fmt.Sprint(i), slot(1))
				if bad && i == 11_000 {
					row.EntityKey = ""
				}
				if !yield(row) {
					return
				}
			}
		}
	}
	_, err := w.client.EnqueueAll(ctx, pgxjobs.Tx(tx), stream(true))
	if _, ok := errors.AsType[*jobs.BulkError](err); !ok {
		t.Error(err)
	}
	if _, err := w.client.Enqueue(ctx, pgxjobs.Tx(tx), check("11999", slot(2))); err != nil {
		t.Error(err)
	}
	n, err := w.client.EnqueueAll(ctx, pgxjobs.Tx(tx), stream(false))
	if want := (jobs.EnqueueCounts{Inserted: 11_999, Kept: 1}); n != want || err != nil {
		t.Errorf("%+v, %v", n, err)
	}
	if n := w.count("select count(*) from prescient.future_job"); n != 0 {
		t.Errorf("%d rows are there before the commit", n)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Error(err)
	}
	if n := w.count("select count(*) from prescient.future_job"); n != 12_000 {
		t.Errorf("%d rows are there after the commit", n)
	}
	if _, err := w.client.Enqueue(ctx, pgxjobs.Tx(tx), check("late", slot(2))); err == nil {
		t.Error("a transaction that has ended took another row")
	}
}

func TestNobodyLinksPgxWhoDoesNotAskForIt(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}}: {{join .Deps " "}}`, "../../...").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	linked := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		path, deps, _ := strings.Cut(line, ": ")
		linked[path] = strings.Contains(deps, "github.com/jackc/")
	}
	const module = "github.com/prescient-go/prescient/"
	if !linked[module+"jobs/pgxjobs"] || len(linked) < 20 {
		t.Errorf("go list has not told what is linked:\n%s", out)
	}
	delete(linked, module+"jobs/pgxjobs")
	for path, links := range linked {
		if links {
			t.Errorf("%s links pgx", path)
		}
	}
}
