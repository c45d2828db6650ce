package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

type seen struct{}

// note is a middleware that takes note of what it is around of, and of the context that the function got.
func note(log *[]string, name string) jobs.Middleware {
	return func(ctx context.Context, call jobs.Call, next func(context.Context) ([]jobs.Result, error)) ([]jobs.Result, error) {
		*log = append(*log, fmt.Sprintf("%s: %d of %s", name, len(call.Rows), call.JobExec))
		call.Rows[0].EntityKey = "changed by " + name
		trail, _ := ctx.Value(seen{}).([]string)
		results, err := next(context.WithValue(ctx, seen{}, append(slices.Clip(trail), name)))
		*log = append(*log, fmt.Sprintf("%s: %d results, %v", name, len(results), err))
		return results, err
	}
}

func TestMiddlewareIsAroundEveryShapeAndTheFirstIsTheOutermost(t *testing.T) {
	t.Parallel()
	var log []string
	errBad := errors.New("bad")
	called := func(ctx context.Context, rows ...jobs.FutureJob) {
		log = append(log, fmt.Sprintf("function: %s after %v", rows[0].EntityKey, ctx.Value(seen{})))
	}
	r := jobs.NewRegistry()
	r.Register("one", jobs.Row(func(ctx context.Context, job jobs.FutureJob) (*time.Time, error) {
		called(ctx, job)
		return nil, errBad
	}))
	r.Register("tx", jobs.InTx(func(ctx context.Context, _ *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		called(ctx, job)
		return nil, errBad
	}))
	r.Use(note(&log, "outer"))
	r.Register("batch", jobs.Batch(func(ctx context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		called(ctx, batch...)
		return make([]jobs.Result, len(batch)), nil
	}))
	r.Use(note(&log, "inner"))
	r.Register("batch tx", jobs.BatchInTx(func(ctx context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		called(ctx, batch...)
		return nil, errBad
	}))
	r.Register("group", jobs.Group("family", func(ctx context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		called(ctx, batch...)
		return make([]jobs.Result, len(batch)), nil
	}))
	for name, test := range map[string]struct {
		rows   []jobs.FutureJob
		result string
	}{
		"one":      {[]jobs.FutureJob{row("1")}, "1 results, bad"},
		"tx":       {[]jobs.FutureJob{row("1")}, "1 results, bad"},
		"batch":    {[]jobs.FutureJob{row("1"), row("2")}, "2 results, <nil>"},
		"batch tx": {[]jobs.FutureJob{row("1"), row("2")}, "0 results, bad"},
		"group":    {[]jobs.FutureJob{row("1"), row("2")}, "2 results, <nil>"},
	} {
		log = nil
		d, _ := r.Lookup(name)
		_, err := d.Call(reserved.Caller{}, t.Context(), nil, test.rows)
		want := []string{
			fmt.Sprintf("outer: %d of %s", len(test.rows), name), fmt.Sprintf("inner: %d of %s", len(test.rows), name),
			"function: 1 after [outer inner]", "inner: " + test.result, "outer: " + test.result,
		}
		if diff := cmp.Diff(want, log); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if failed := test.result[len(test.result)-3:] == "bad"; failed != errors.Is(err, errBad) {
			t.Errorf("%s: %v", name, err)
		}
		if test.rows[0].EntityKey != "1" {
			t.Errorf("%s: the row was changed: %v", name, test.rows[0].Key())
		}
	}
}

func TestMiddlewareMayFailAllRowsAndMustAnswerForEachRow(t *testing.T) {
	t.Parallel()
	errClosed := errors.New("closed on Sundays")
	r := jobs.NewRegistry()
	r.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		t.Error("the function was called")
		return nil, nil
	}))
	answer := errClosed
	r.Use(func(context.Context, jobs.Call, func(context.Context) ([]jobs.Result, error)) ([]jobs.Result, error) {
		return nil, answer
	})
	d, _ := r.Lookup("job")
	if _, err := d.Call(reserved.Caller{}, t.Context(), nil, []jobs.FutureJob{row("1")}); !errors.Is(err, errClosed) {
		t.Error(err)
	}
	answer = nil
	if _, err := d.Call(reserved.Caller{}, t.Context(), nil, []jobs.FutureJob{row("1")}); err == nil {
		t.Error("no results for a row are no error")
	}
}

func TestAPanicPassesThroughMiddleware(t *testing.T) {
	t.Parallel()
	r := jobs.NewRegistry()
	r.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { panic("boom") }))
	cleaned := false
	r.Use(func(ctx context.Context, call jobs.Call, next func(context.Context) ([]jobs.Result, error)) ([]jobs.Result, error) {
		defer func() { cleaned = true }()
		return next(ctx)
	})
	defer func() {
		if p := recover(); p != "boom" || !cleaned {
			t.Errorf("panic %v, cleaned up %t", p, cleaned)
		}
	}()
	d, _ := r.Lookup("job")
	_, _ = d.Call(reserved.Caller{}, t.Context(), nil, []jobs.FutureJob{row("1")})
}

func TestMiddlewareOfACloneIsItsOwn(t *testing.T) {
	t.Parallel()
	var log []string
	r := jobs.NewRegistry()
	r.Register("job", jobs.Row(done))
	r.Use(note(&log, "both"))
	clone := r.Clone()
	clone.Use(note(&log, "clone"))
	r.Use(note(&log, "original"))
	clone.Register("later", jobs.Row(done))
	for _, test := range []struct {
		registry *jobs.Registry
		job      string
		want     string
	}{{r, "job", "original"}, {clone, "job", "clone"}, {clone, "later", "clone"}} {
		log = nil
		d, _ := test.registry.Lookup(test.job)
		if _, err := d.Call(reserved.Caller{}, t.Context(), nil, []jobs.FutureJob{row("1")}); err != nil {
			t.Fatal(err)
		}
		if want := []string{"both: 1 of " + test.job, test.want + ": 1 of " + test.job}; !slices.Equal(log[:2], want) {
			t.Errorf("%v, want %v", log[:2], want)
		}
	}
}

func TestEveryEnqueueGoesThroughTheMiddleware(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var order []string
	named := func(name string) jobs.EnqueueMiddleware {
		return func(ctx context.Context, call jobs.EnqueueCall, next func(context.Context, []jobs.Request) error) error {
			order = append(order, fmt.Sprint(name, len(call.Requests)))
			for i := range call.Requests {
				call.Requests[i].GroupKey += name
			}
			if _, err := call.Tx.ExecContext(ctx, "insert into audit values ($1)", len(call.Requests)); err != nil {
				return err
			}
			return next(ctx, call.Requests)
		}
	}
	if _, err := w.db.Exec("create table audit (jobs integer)"); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("no more orders today")
	client, err := jobs.NewClient(t.Context(), w.db, jobs.Config{Now: func() time.Time { return now }, Around: []jobs.EnqueueMiddleware{
		named("a"), named("b"),
		func(ctx context.Context, call jobs.EnqueueCall, next func(context.Context, []jobs.Request) error) error {
			switch call.Requests[0].EntityKey {
			case "refused":
				return refused
			case "spoilt":
				call.Requests[0].EntityName = ""
			case "dropped":
				call.Requests = nil
			}
			return next(ctx, call.Requests)
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	job := func(key string) jobs.Request {
		return jobs.Request{JobExec: "remind", EntityName: "order", EntityKey: key, CheckAt: slot(4)}
	}
	if _, err := client.Enqueue(t.Context(), jobs.OwnTx(w.db), job("1")); err != nil {
		t.Error(err)
	}
	if n, err := client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), []jobs.Request{job("2"), job("3")}); err != nil || n.Inserted != 2 {
		t.Error(n, err)
	}
	if n, err := client.EnqueueAll(t.Context(), jobs.OwnTx(w.db), slices.Values([]jobs.Request{job("4"), job("5")})); err != nil || n.Inserted != 2 {
		t.Error(n, err)
	}
	for _, row := range w.waiting() {
		if row.GroupKey != "ab" {
			t.Errorf("%s: group %q", row.EntityKey, row.GroupKey)
		}
	}
	if _, err := client.Enqueue(t.Context(), jobs.OwnTx(w.db), job("refused")); !errors.Is(err, refused) {
		t.Error(err)
	}
	var bad *jobs.FieldError
	if _, err := client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), []jobs.Request{job("spoilt")}); !errors.As(err, &bad) || bad.Field != "entity_name" {
		t.Error(err)
	}
	if _, err := client.Enqueue(t.Context(), jobs.OwnTx(w.db), job("dropped")); err == nil || !strings.Contains(err.Error(), "passed 0 jobs of 1") {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"a1", "b1", "a2", "b2", "a2", "b2", "a1", "b1", "a1", "b1", "a1", "b1"}, order); diff != "" {
		t.Error(diff)
	}
	var audited, waiting int
	if err := w.db.Get(&audited, "select sum(jobs) from audit"); err != nil || audited != 10 {
		t.Errorf("%d: what the refused calls wrote is not rolled back, %v", audited, err)
	}
	if waiting = len(w.waiting()); waiting != 5 {
		t.Errorf("%d wait", waiting)
	}
}

func TestARequestThatAMiddlewareSpoilsHasTheIndexOfTheCall(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const count, first = 15_000, 12_345 // two parts of a stream
	client, err := jobs.NewClient(t.Context(), w.db, jobs.Config{Now: func() time.Time { return now }, Around: []jobs.EnqueueMiddleware{
		func(ctx context.Context, call jobs.EnqueueCall, next func(context.Context, []jobs.Request) error) error {
			for i := range call.Requests {
				if call.Requests[i].GroupKey == "spoil" {
					call.Requests[i].EntityName = ""
				}
			}
			return next(ctx, call.Requests)
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	list := make([]jobs.Request, count)
	for i := range list {
		list[i] = check(fmt.Sprint(i), slot(4))
		if i >= first {
			list[i].GroupKey = "spoil"
		}
	}
	_, many := client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), list)
	_, all := client.EnqueueAll(t.Context(), jobs.OwnTx(w.db), slices.Values(list))
	for name, call := range map[string]struct {
		err  error
		want int
	}{
		"EnqueueMany": {many, count - first},
		"EnqueueAll":  {all, 1000},
	} {
		bulk, ok := errors.AsType[*jobs.BulkError](call.err)
		if !ok || len(bulk.Requests) != call.want {
			t.Fatalf("%s: %v", name, call.err)
		}
		for i, bad := range bulk.Requests {
			if bad.Index != first+i {
				t.Errorf("%s: index %d, want %d", name, bad.Index, first+i)
				break
			}
		}
	}
	if n := len(w.waiting()); n != 0 {
		t.Errorf("%d rows are committed", n)
	}
}

func TestAMiddlewareThatFailsLeavesTheCallersTransactionAsItWas(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.db.MustExec("create table kept (call text)")
	list := make([]jobs.Request, 15_000) // two parts of a stream
	for i := range list {
		list[i] = jobs.Request{JobExec: "remind", EntityName: "order", EntityKey: fmt.Sprint(i), CheckAt: slot(4)}
	}
	refused := errors.New("over quota")
	for name, enqueue := range map[string]func(c *jobs.Client, db jobs.Tx) error{
		"Enqueue": func(c *jobs.Client, db jobs.Tx) error {
			_, err := c.Enqueue(t.Context(), db, list[len(list)-1])
			return err
		},
		"EnqueueMany": func(c *jobs.Client, db jobs.Tx) error { _, err := c.EnqueueMany(t.Context(), db, list); return err },
		"EnqueueAll": func(c *jobs.Client, db jobs.Tx) error {
			_, err := c.EnqueueAll(t.Context(), db, slices.Values(list))
			return err
		},
	} {
		for _, end := range []func() error{func() error { return refused }, func() error { panic(refused) }} {
			around := func(ctx context.Context, call jobs.EnqueueCall, next func(context.Context, []jobs.Request) error) error {
				if err := next(ctx, call.Requests); err != nil || call.Requests[len(call.Requests)-1].EntityKey != "14999" {
					return err
				}
				return end()
			}
			client, err := jobs.NewClient(t.Context(), w.db, jobs.Config{
				Now: func() time.Time { return now }, Around: []jobs.EnqueueMiddleware{around},
			})
			if err != nil {
				t.Fatal(err)
			}
			tx := w.db.MustBegin()
			tx.MustExec("insert into kept values ($1)", name)
			func() {
				defer func() {
					if p := recover(); p != nil {
						err = p.(error)
					}
				}()
				err = enqueue(client, tx)
			}()
			if !errors.Is(err, refused) {
				t.Errorf("%s: %v", name, err)
			}
			if err := tx.Commit(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if n := len(w.waiting()); n != 0 {
				t.Errorf("%s: %d rows are committed", name, n)
			}
		}
	}
	var kept int
	if err := w.db.Get(&kept, "select count(*) from kept"); err != nil || kept != 6 {
		t.Errorf("%d rows of the caller, %v", kept, err)
	}
}

func TestAPanicOfAMiddlewareReachesTheCallerOfEveryEnqueue(t *testing.T) {
	t.Parallel()
	w := setup(t)
	end := func() { panic("boom") }
	around := func(ctx context.Context, call jobs.EnqueueCall, next func(context.Context, []jobs.Request) error) error {
		if err := next(ctx, call.Requests); err != nil {
			return err
		}
		end()
		return nil
	}
	client, err := jobs.NewClient(t.Context(), w.db, jobs.Config{
		Now: func() time.Time { return now }, Around: []jobs.EnqueueMiddleware{around},
	})
	if err != nil {
		t.Fatal(err)
	}
	list := []jobs.Request{{JobExec: "remind", EntityName: "order", EntityKey: "1", CheckAt: slot(4)}}
	all := func() error {
		_, err := client.EnqueueAll(t.Context(), jobs.OwnTx(w.db), slices.Values(list))
		return err
	}
	for name, enqueue := range map[string]func() error{
		"Enqueue":     func() error { _, err := client.Enqueue(t.Context(), jobs.OwnTx(w.db), list[0]); return err },
		"EnqueueMany": func() error { _, err := client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), list); return err },
		"EnqueueAll":  all,
	} {
		func() {
			defer func() {
				if p := recover(); p != "boom" {
					t.Errorf("%s: panic %v", name, p)
				}
			}()
			t.Errorf("%s returned %v", name, enqueue())
		}()
	}
	end = runtime.Goexit
	if err := all(); err == nil || !strings.Contains(err.Error(), "Goexit") {
		t.Errorf("EnqueueAll returned %v", err)
	}
	if n := len(w.waiting()); n != 0 {
		t.Errorf("%d wait", n)
	}
}

// enqueues has every call that enqueues, by its name.
func enqueues(ctx context.Context, w *world, list []jobs.Request) map[string]func(c *jobs.Client) error {
	inTx := func(fn func(tx jobs.Tx) error) error {
		tx := w.db.MustBegin()
		defer func() { _ = tx.Rollback() }()
		return fn(tx)
	}
	return map[string]func(c *jobs.Client) error{
		"Enqueue": func(c *jobs.Client) error {
			return inTx(func(tx jobs.Tx) error { _, err := c.Enqueue(ctx, tx, list[0]); return err })
		},
		"EnqueueNow": func(c *jobs.Client) error { _, err := c.EnqueueNow(ctx, list[0]); return err },
		"EnqueueMany": func(c *jobs.Client) error {
			return inTx(func(tx jobs.Tx) error { _, err := c.EnqueueMany(ctx, tx, list); return err })
		},
		"EnqueueMany, OwnTx": func(c *jobs.Client) error { _, err := c.EnqueueMany(ctx, jobs.OwnTx(w.db), list); return err },
		"EnqueueAll": func(c *jobs.Client) error {
			return inTx(func(tx jobs.Tx) error { _, err := c.EnqueueAll(ctx, tx, slices.Values(list)); return err })
		},
		"EnqueueAll, OwnTx": func(c *jobs.Client) error {
			_, err := c.EnqueueAll(ctx, jobs.OwnTx(w.db), slices.Values(list))
			return err
		},
	}
}

// auditing is a client with a middleware that runs statements before it enqueues.
func (w *world) auditing(statements ...string) *jobs.Client {
	w.t.Helper()
	client, err := jobs.NewClient(w.t.Context(), w.db, jobs.Config{
		Now: func() time.Time { return now },
		Around: []jobs.EnqueueMiddleware{
			func(ctx context.Context, call jobs.EnqueueCall, next func(context.Context, []jobs.Request) error) error {
				for _, statement := range statements {
					if _, err := call.Tx.ExecContext(ctx, statement); err != nil {
						return err
					}
				}
				return next(ctx, call.Requests)
			},
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return client
}

func TestAnErrorOfAMiddlewareIsNotBlamedOnTheSchemaOfPrescient(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec("create table audit (jobs integer)")
	for state, statement := range map[pqerror.Code]string{
		pqerror.UndefinedTable:  "insert into audits values (1)",
		pqerror.UndefinedColumn: "insert into audit (job) values (1)",
	} {
		client := w.auditing(statement)
		for name, enqueue := range enqueues(t.Context(), w, []jobs.Request{check("1", slot(4))}) {
			if err := enqueue(client); !pg.HasState(err, state) || errors.Is(err, pgsql.ErrNotMigrated) {
				t.Errorf("%s, %s: %v", statement, name, err)
			}
		}
	}
}

// The row security of a table of the application is its own affair. That of prescient's tables is an error.
func TestAMiddlewareMayWriteIntoATableWithRowSecurity(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const role = "middleware_auditor"
	w.exec("create role " + role)
	pgtest.DropRoles(t, w.db, role)
	w.exec("create table audit (jobs integer); grant insert on audit to " + role)
	w.exec("alter table audit enable row level security; create policy theirs on audit for insert with check (jobs > 0)")
	client := w.auditing("set local role "+role, "insert into audit values (1)", "reset role")
	for name, enqueue := range enqueues(t.Context(), w, []jobs.Request{check("1", slot(4))}) {
		if err := enqueue(client); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatIsMissingIsExplainedBesideAMiddleware(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "a distributed schema is not renamed")
	w := setup(t)
	client := w.auditing()
	w.exec("alter schema prescient rename to gone")
	for name, enqueue := range enqueues(t.Context(), w, []jobs.Request{check("1", slot(4))}) {
		if err := enqueue(client); !errors.Is(err, pgsql.ErrNotMigrated) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
