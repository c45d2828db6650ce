package jobs_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestADurationWithoutAUnitIsRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	if _, err := jobs.NewClient(t.Context(), w.db, jobs.Config{Horizon: 30}); err == nil || !strings.Contains(err.Error(), "30ns is less than 1ms") {
		t.Errorf("a horizon: %v", err)
	}
	job := check("1", slot(4))
	_, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), job, jobs.PushBack(30))
	if field, ok := errors.AsType[*jobs.FieldError](err); !ok || field.Field != "max_wait" {
		t.Errorf("Enqueue: %v", err)
	}
	_, _, err = w.client.PushBack(t.Context(), jobs.OwnTx(w.db), job.Key(), slot(5), 30)
	if field, ok := errors.AsType[*jobs.FieldError](err); !ok || field.Field != "max_wait" {
		t.Errorf("PushBack: %v", err)
	}
	for name, change := range map[string]func(r *jobs.Request){
		"within":              func(r *jobs.Request) { r.Within = 30 },
		"unless_ended_within": func(r *jobs.Request) { r.UnlessEndedWithin = 30 },
	} {
		bad := job
		change(&bad)
		_, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), bad)
		if field, ok := errors.AsType[*jobs.FieldError](err); !ok || field.Field != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEnqueueRoundsUpToASlotAndNeverIntoThePast(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i, test := range []struct{ at, want time.Time }{
		{slot(1), slot(1)},
		{slot(1).Add(400), slot(1)}, // less than half a microsecond
		{slot(1).Add(500), slot(1)}, // to the even microsecond
		{slot(1).Add(time.Microsecond), slot(2)},
		{slot(2).Add(-time.Microsecond), slot(2)},
		{slot(2).In(time.FixedZone("", 5*3600+45*60)), slot(2)},
		{slot(0), slot(1)}, // has begun
		{now, slot(1)},
		{now.Add(-time.Hour), slot(1)},
		{grid.Min(), slot(1)},
		{now.Add(jobs.DefaultHorizon - 20*time.Minute), grid.Default.Ceil(now.Add(jobs.DefaultHorizon - 20*time.Minute))},
	} {
		e := w.enqueue(check(fmt.Sprint(i), test.at), jobs.Keep)
		if !e.Slot.Equal(test.want) || e.Slot.Location() != time.UTC || e.Action != jobs.ActionInserted || e.ID == 0 {
			t.Errorf("asked for %s: %+v, want %s", test.at.Format(time.RFC3339Nano), e, test.want)
		}
	}
}

func TestWithoutAClockTheDatabaseSaysWhatIsPast(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *jobs.Config) { c.Now = nil })
	var clock time.Time
	if err := w.db.GetContext(t.Context(), &clock, "select clock_timestamp()"); err != nil {
		t.Fatal(err)
	}
	e := w.enqueue(check("1", clock.Add(-time.Hour)), jobs.Keep)
	counts, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), []jobs.Request{check("2", clock.Add(-time.Hour))})
	if err != nil || counts.Inserted != 1 {
		t.Fatal(counts, err)
	}
	for _, job := range w.waiting() {
		if next := job.NextCheckAt; !next.After(clock) || next.After(clock.Add(30*time.Minute)) || !grid.Default.Contains(e.Slot) {
			t.Errorf("at %s: order %s waits for %s", clock, job.EntityKey, next)
		}
	}
}

func TestAnEnqueuedRowIsReadBackAsItWasWritten(t *testing.T) {
	t.Parallel()
	w := setup(t)
	job := jobs.Request{JobExec: "remind", EntityName: "ördér", EntityKey: `4"2',{}\`, ItemKey: "it em", GroupKey: "customer 7"}
	job.CheckAt = slot(3)
	if err := job.SetPayload(map[string]any{"total": 1.5, "note": "a \"quoted\" \\ {text}, NULL"}); err != nil {
		t.Fatal(err)
	}
	other := job
	other.ItemKey, other.Anonymous, other.GroupKey, other.Payload = "", true, "", nil
	e := w.enqueue(job, jobs.Keep)
	w.enqueue(other, jobs.Keep)
	bulk := job
	bulk.EntityKey = "NULL"
	if _, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), []jobs.Request{bulk, other}); err != nil {
		t.Fatal(err)
	}

	got := map[string]jobs.FutureJob{}
	for _, j := range w.waiting() {
		got[fmt.Sprint(j.EntityKey, j.Anonymous)] = j
	}
	if len(got) != 3 || len(w.waiting()) != 4 {
		t.Fatalf("%d rows wait: %v", len(w.waiting()), got)
	}
	for _, want := range []jobs.Request{job, bulk, other} {
		j := got[fmt.Sprint(want.EntityKey, want.Anonymous)]
		if j.Key() != want.Key() || j.GroupKey != want.GroupKey || !j.NextCheckAt.Equal(slot(3)) || !j.FirstCheckAt.Equal(slot(3)) {
			t.Errorf("read %+v, want %+v", j, want)
		}
		if j.EnqueuedBy == "" || j.EnqueuedAt.IsZero() || j.CheckCount != 0 || j.ErrorCount != 0 || j.LastError != "" || j.Spent != 0 {
			t.Errorf("a new row is %+v", j)
		}
		if want.Payload == nil {
			if j.Payload != nil {
				t.Errorf("payload %s of none", j.Payload)
			}
			continue
		}
		a, _ := jobs.Payload[map[string]any](jobs.FutureJob{Payload: want.Payload})
		b, err := jobs.Payload[map[string]any](j)
		if diff := cmp.Diff(a, b); diff != "" || err != nil {
			t.Error(err, diff)
		}
	}
	if j := got[fmt.Sprint(job.EntityKey, false)]; j.ID != e.ID {
		t.Errorf("id %d, Enqueue returned %d", j.ID, e.ID)
	}
}

// The fields are found by reflection: a new one that a way to enqueue forgets would be lost in silence.
func TestEachWayToEnqueueWritesEveryFieldOfARequest(t *testing.T) {
	t.Parallel()
	for name, enqueue := range map[string]func(w *world, r jobs.Request) error{
		"Enqueue": func(w *world, r jobs.Request) error {
			_, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), r)
			return err
		},
		"EnqueueMany": func(w *world, r jobs.Request) error {
			_, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), []jobs.Request{r})
			return err
		},
		"EnqueueAll": func(w *world, r jobs.Request) error {
			_, err := w.client.EnqueueAll(t.Context(), jobs.OwnTx(w.db), slices.Values([]jobs.Request{r}))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			r := jobs.Request{CheckAt: slot(3), Payload: []byte(`{"a": 1}`)}
			want := reflect.ValueOf(&r).Elem()
			for i := range want.NumField() {
				if want.Field(i).Kind() == reflect.String {
					want.Field(i).SetString("the " + want.Type().Field(i).Name)
				}
			}
			if err := enqueue(w, r); err != nil {
				t.Fatal(err)
			}
			list := w.waiting()
			if len(list) != 1 {
				t.Fatalf("%d rows wait", len(list))
			}
			got, compared := reflect.ValueOf(list[0]), 0
			for i := range want.NumField() {
				field := got.FieldByName(want.Type().Field(i).Name)
				if !field.IsValid() {
					continue // it is about the enqueue, and no column
				}
				compared++
				if diff := cmp.Diff(want.Field(i).Interface(), field.Interface()); diff != "" {
					t.Errorf("%s: %s", want.Type().Field(i).Name, diff)
				}
			}
			if compared < 7 {
				t.Errorf("only %d fields were compared", compared)
			}
		})
	}
}

// What each policy makes of a key that waits for slot 4 when the same key is asked for at slot 8.
var policies = []struct {
	name     string
	on       jobs.OnConflict
	action   jobs.EnqueueAction
	counts   jobs.EnqueueCounts
	waits    int // for which slot
	replaced int
}{
	{"nil", nil, jobs.ActionKept, jobs.EnqueueCounts{Kept: 1}, 4, 0},
	{"Keep", jobs.Keep, jobs.ActionKept, jobs.EnqueueCounts{Kept: 1}, 4, 0},
	{"Replace", jobs.Replace, jobs.ActionReplaced, jobs.EnqueueCounts{Replaced: 1}, 8, 1},
	{"PushBack", jobs.PushBack(0), jobs.ActionPushedBack, jobs.EnqueueCounts{PushedBack: 1}, 8, 0},
	{"PushBack with a maximum wait", jobs.PushBack(50 * time.Minute), jobs.ActionPushedBack, jobs.EnqueueCounts{PushedBack: 1}, 7, 0},
	{"PushBack with a maximum wait that is over", jobs.PushBack(time.Millisecond), jobs.ActionPushedBack, jobs.EnqueueCounts{PushedBack: 1}, 4, 0},
}

func TestAKeyThatWaitsIsTreatedByPolicy(t *testing.T) {
	t.Parallel()
	for _, policy := range policies {
		t.Run(policy.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			first := w.enqueue(check("1", slot(4)), policy.on)
			if first.Action != jobs.ActionInserted {
				t.Errorf("a new key: %+v", first)
			}
			second := w.enqueue(check("1", slot(8)), policy.on)
			if second.Action != policy.action || !second.Slot.Equal(slot(policy.waits)) {
				t.Errorf("%+v, want %s in slot %s", second, policy.action, slot(policy.waits))
			}
			if (second.ID == first.ID) == (policy.replaced > 0) {
				t.Errorf("the rows are %d and %d", first.ID, second.ID)
			}
			if list := w.waiting(); len(list) != 1 || list[0].ID != second.ID || !list[0].NextCheckAt.Equal(second.Slot) {
				t.Errorf("waiting: %+v", list)
			}
			if n := w.outcomes(); n[jobs.OutcomeReplaced] != policy.replaced || len(w.history()) != policy.replaced {
				t.Errorf("history: %v", n)
			}
		})
	}
}

func TestAKeyThatWaitsIsTreatedByPolicyInBulkToo(t *testing.T) {
	t.Parallel()
	for _, policy := range policies {
		t.Run(policy.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.enqueue(check("1", slot(4)), jobs.Keep)
			got, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), []jobs.Request{check("1", slot(8)), check("2", slot(8))}, policy.on)
			want := policy.counts
			want.Inserted = 1
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Error(err, diff)
			}

			// A key given twice in one call counts as two calls, in order.
			got, err = w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), []jobs.Request{check("3", slot(4)), check("0", slot(4)), check("3", slot(8))}, policy.on)
			want.Inserted = 2
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Error(err, diff)
			}
			for _, key := range []string{"1", "3"} {
				list, err := admin.New(w.client).Show(t.Context(), w.db, "order", key)
				if err != nil || len(list) != 1 || !list[0].NextCheckAt.Equal(slot(policy.waits)) {
					t.Errorf("order %s: %+v, %v", key, list, err)
				}
			}
			if n := w.outcomes(); n[jobs.OutcomeReplaced] != 2*policy.replaced {
				t.Errorf("history: %v", n)
			}
		})
	}
}

func TestAnEnqueueWithoutAPolicyKeepsAndOfSeveralTheLastCounts(t *testing.T) {
	t.Parallel()
	w := setup(t)
	kind := jobs.Kind[int]{Name: "remind"}
	many, all := []jobs.Request{check("1", slot(8))}, slices.Values([]jobs.Request{check("1", slot(8))})
	w.enqueue(many[0], jobs.Keep)
	for name, call := range map[string]func(on ...jobs.OnConflict) (jobs.EnqueueAction, error){
		"Enqueue": func(on ...jobs.OnConflict) (jobs.EnqueueAction, error) {
			e, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), many[0], on...)
			return e.Action, err
		},
		"Kind.Enqueue": func(on ...jobs.OnConflict) (jobs.EnqueueAction, error) {
			e, err := kind.Enqueue(t.Context(), w.client, jobs.OwnTx(w.db), many[0], 7, on...)
			return e.Action, err
		},
		"EnqueueMany": func(on ...jobs.OnConflict) (jobs.EnqueueAction, error) {
			return actionOf(w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), many, on...))
		},
		"EnqueueAll": func(on ...jobs.OnConflict) (jobs.EnqueueAction, error) {
			return actionOf(w.client.EnqueueAll(t.Context(), jobs.OwnTx(w.db), all, on...))
		},
	} {
		if action, err := call(); err != nil || action != jobs.ActionKept {
			t.Errorf("%s: %s, %v", name, action, err)
		}
		if action, err := call(jobs.Reject, jobs.Replace); err != nil || action != jobs.ActionReplaced {
			t.Errorf("%s, of two: %s, %v", name, action, err)
		}
	}
}

// actionOf returns what became of the only row of a call.
func actionOf(n jobs.EnqueueCounts, err error) (jobs.EnqueueAction, error) {
	switch n {
	case jobs.EnqueueCounts{Kept: 1}:
		return jobs.ActionKept, err
	case jobs.EnqueueCounts{Replaced: 1}:
		return jobs.ActionReplaced, err
	}
	return jobs.EnqueueAction(fmt.Sprintf("%+v", n)), err
}

func TestFailOnConflictReturnsErrExistsAndAbortsTheTransaction(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue(check("1", slot(4)), jobs.Reject)
	if _, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), check("1", slot(8)), jobs.Reject); !errors.Is(err, jobs.ErrExists) {
		t.Errorf("one: %v", err)
	}
	for name, list := range map[string][]jobs.Request{
		"waits already":        {check("0", slot(8)), check("1", slot(8)), check("2", slot(8))},
		"twice in the call":    {check("0", slot(8)), check("5", slot(8)), check("5", slot(8))},
		"an anonymous besides": {anonymous("1", slot(8)), check("1", slot(8))},
	} {
		if n, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), list, jobs.Reject); !errors.Is(err, jobs.ErrExists) || n != (jobs.EnqueueCounts{}) {
			t.Errorf("%s: %+v, %v", name, n, err)
		}
	}
	if list := w.waiting(); len(list) != 1 || !list[0].NextCheckAt.Equal(slot(4)) {
		t.Errorf("waiting: %+v", list)
	}
}

func TestAnonymousRowsNeverConflict(t *testing.T) {
	t.Parallel()
	for _, on := range []jobs.OnConflict{jobs.Keep, jobs.Replace, jobs.PushBack(time.Hour), jobs.Reject} {
		w := setup(t)
		for range 2 {
			if e := w.enqueue(anonymous("1", slot(2)), on); e.Action != jobs.ActionInserted {
				t.Errorf("%v: %+v", on, e)
			}
		}
		n, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), []jobs.Request{anonymous("1", slot(3)), anonymous("1", slot(3)), check("1", slot(3))}, on)
		if err != nil || n != (jobs.EnqueueCounts{Inserted: 3}) {
			t.Errorf("%v: %+v, %v", on, n, err)
		}
		if found, err := w.client.Cancel(t.Context(), jobs.OwnTx(w.db), keyOf("1")); err != nil || !found {
			t.Errorf("cancel: %t, %v", found, err)
		}
		if n := len(w.waiting()); n != 4 {
			t.Errorf("%d rows wait, want the 4 anonymous ones", n)
		}
	}
}

func TestKeysDifferInEachOfTheirParts(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var list []jobs.Request
	for _, k := range []jobs.Key{{"a", "b", "c", ""}, {"x", "b", "c", ""}, {"a", "x", "c", ""}, {"a", "b", "x", ""}, {"a", "b", "c", "x"}} {
		j := jobs.Request{JobExec: k.JobExec, EntityName: k.EntityName, EntityKey: k.EntityKey, ItemKey: k.ItemKey}
		j.CheckAt = slot(1)
		list = append(list, j)
	}
	if n, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), list, jobs.Reject); err != nil || n.Inserted != 5 {
		t.Error(n, err)
	}
}

func TestEnqueueManyOfNothingIsNothingToDo(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, on := range []jobs.OnConflict{jobs.Keep, jobs.Replace, jobs.Reject} {
		if n, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), nil, on); err != nil || n != (jobs.EnqueueCounts{}) {
			t.Errorf("%v: %+v, %v", on, n, err)
		}
	}
}

func TestEveryCallIsPartOfTheCallersTransaction(t *testing.T) {
	t.Parallel()
	w := setup(t)
	calls := map[string]func(db jobs.Tx) error{
		"Enqueue": func(db jobs.Tx) error {
			_, err := w.client.Enqueue(t.Context(), db, check("new", slot(1)))
			return err
		},
		"EnqueueMany": func(db jobs.Tx) error {
			_, err := w.client.EnqueueMany(t.Context(), db, []jobs.Request{check("new 1", slot(1)), check("new 2", slot(1))}, jobs.Replace)
			return err
		},
		"Cancel":       func(db jobs.Tx) error { _, err := w.client.Cancel(t.Context(), db, keyOf("old 1")); return err },
		"CancelEntity": func(db jobs.Tx) error { _, err := w.client.CancelEntity(t.Context(), db, "order", "old 2"); return err },
		"Reschedule": func(db jobs.Tx) error {
			_, _, err := w.client.Reschedule(t.Context(), db, keyOf("old 3"), slot(9))
			return err
		},
		"PushBack": func(db jobs.Tx) error {
			_, _, err := w.client.PushBack(t.Context(), db, keyOf("old 4"), slot(9), 0)
			return err
		},
	}
	for i := range 4 {
		w.enqueue(check(fmt.Sprintf("old %d", i+1), slot(4)), jobs.Keep)
	}
	state := func() (s []string) {
		for _, j := range w.waiting() {
			s = append(s, fmt.Sprint(j.ID, j.EntityKey, j.NextCheckAt))
		}
		for _, e := range w.history() {
			s = append(s, fmt.Sprint(e.ID, e.EntityKey, e.Outcome))
		}
		return s
	}
	before := state()
	for name, call := range calls {
		plain, err := w.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		extended, err := w.db.BeginTxx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(call(plain), plain.Rollback(), call(extended), extended.Rollback()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(before, state()); diff != "" {
			t.Errorf("%s left something after a rollback:\n%s", name, diff)
		}
	}
	tx, err := w.db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range calls {
		if err := call(tx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if diff := cmp.Diff(before, state()); diff != "" {
		t.Errorf("seen before the commit:\n%s", diff)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if n := w.outcomes(); len(w.waiting()) != 5 || n[jobs.OutcomeCancelled] != 2 {
		t.Errorf("after the commit %v wait, history %v", w.waiting(), n)
	}
}

func TestAPoolGivesACallATransactionOfItsOwn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for name, db := range map[string]jobs.Tx{"sqlx.DB": jobs.OwnTx(w.db), "sql.DB": jobs.OwnTx(w.db.DB)} {
		if e, err := w.client.Enqueue(t.Context(), db, check(name, slot(1))); err != nil || e.Action != jobs.ActionInserted {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
	if n := len(w.waiting()); n != 2 {
		t.Errorf("%d rows wait", n)
	}
	if open := w.db.Stats().InUse; open != 0 {
		t.Errorf("%d connections are still in use", open)
	}
}

func TestAnotherSchemaHoldsItsOwnChecks(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if err := pgsql.Migrate(t.Context(), db, "order_checks"); err != nil {
		t.Fatal(err)
	}
	client, err := jobs.NewClient(t.Context(), db, jobs.Config{Schema: "order_checks"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Enqueue(t.Context(), jobs.OwnTx(db), check("1", time.Now().Add(time.Hour))); err != nil {
		t.Fatal(err)
	}
	var n [2]int
	if err := db.QueryRowContext(t.Context(), "select (select count(*) from prescient.future_job), (select count(*) from order_checks.future_job)").Scan(&n[0], &n[1]); err != nil || n != [2]int{0, 1} {
		t.Error(n, err)
	}
}

func TestAJobThatTheRegistryHasNotIsWarnedOfOnceAndEnqueued(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	registry := jobs.NewRegistry()
	registry.Register("known", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	w := setup(t, func(c *jobs.Config) { c.Registry, c.Logger = registry, slog.New(slog.NewTextHandler(&log, nil)) })
	for key, job := range []string{"known", "unknown", "known", "unknown"} {
		row := check(strconv.Itoa(key), now)
		row.JobExec = job
		if _, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), row); err != nil {
			t.Fatal(err)
		}
	}
	if text := log.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, "job=unknown\n") {
		t.Error(text)
	}
	if at, err := admin.New(w.client).ServedAt(t.Context(), w.db, "known"); err != nil || !at.IsZero() {
		t.Error(at, err)
	}
}

func TestNewClientRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for name, cfg := range map[string]jobs.Config{
		"schema":           {Schema: "No Schema"},
		"missing schema":   {Schema: "elsewhere"},
		"negative horizon": {Horizon: -1},
		"negative payload": {MaxPayload: -1},
	} {
		if c, err := jobs.NewClient(t.Context(), db, cfg); err == nil || c != nil {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
	if _, err := jobs.NewClient(t.Context(), db, jobs.Config{Schema: "elsewhere"}); !errors.Is(err, pgsql.ErrNotMigrated) {
		t.Error(err)
	}
}

func TestATransactionThatIsReadOnlyIsToldAsSuch(t *testing.T) {
	t.Parallel()
	w := setup(t)
	tx := w.db.MustBeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	defer func() { _ = tx.Rollback() }()
	_, err := w.client.Enqueue(t.Context(), tx, check("1", now))
	if !errors.Is(err, pgsql.ErrReadOnly) || !strings.Contains(err.Error(), "or the transaction is read-only: ") {
		t.Error(err)
	}
}

// A traceparent may come from a request, of whomever: it must not spoil the transaction of the business.
func TestATraceThatIsRefusedLeavesTheTransactionAsItIs(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for name, bad := range map[string]string{"NUL": "00-\x00", "UTF-8": "00-\xff", "long": strings.Repeat("0", 501)} {
		tx := w.db.MustBegin()
		if _, ok := errors.AsType[*jobs.FieldError](jobs.SetTraceParent(t.Context(), tx, bad)); !ok {
			t.Errorf("%s: is not refused", name)
		}
		if _, err := w.client.Enqueue(t.Context(), tx, check(name, now)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := tx.Commit(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(w.waiting()); n != 3 {
		t.Errorf("%d rows wait", n)
	}
}

func TestWhatHoldsForTheRestOfATransactionIsRefusedWithoutOne(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for name, db := range map[string]jobs.Tx{"a pool": jobs.OwnTx(w.db), "nil": nil} {
		for what, err := range map[string]error{
			"actor":       jobs.SetActor(t.Context(), db, "alice"),
			"traceparent": jobs.SetTraceParent(t.Context(), db, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
		} {
			if want := "set " + what + ": it holds for the rest of a transaction"; err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
}

func TestACallWithoutADatabaseSaysSo(t *testing.T) {
	t.Parallel()
	w := setup(t)
	_, enqueue := w.client.Enqueue(t.Context(), nil, check("1", now))
	_, all := w.client.EnqueueAll(t.Context(), nil, slices.Values([]jobs.Request{check("1", now)}))
	_, cancel := w.client.Cancel(t.Context(), nil, keyOf("1"))
	_, list := seq.Collect(admin.New(w.client).List(t.Context(), nil, admin.Filter{}))
	_, prune := admin.New(w.client).PreviewPrune(t.Context(), nil, now)
	for name, err := range map[string]error{"Enqueue": enqueue, "EnqueueAll": all, "Cancel": cancel, "List": list, "Prune": prune} {
		if err == nil || !strings.Contains(err.Error(), "there is no database: db is nil") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An application may set the actor without SetActor, from the text of a request.
func TestWhoEnqueuesIsKeptNoLongerThanAKey(t *testing.T) {
	t.Parallel()
	for name, ask := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			tx := w.db.MustBegin()
			tx.MustExec(`select set_config('prescient_caller.' || what, repeat('ä', 1000000), true) from (values ('actor'), ('traceparent')) as v (what)`)
			if _, err := ask(w, tx, slot(2), jobs.Replace); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			var long int
			if err := w.db.Get(&long, `select max(greatest(length(enqueued_actor), length(enqueued_traceparent))) from prescient.future_job`); err != nil || long != 500 {
				t.Errorf("%d characters, error %v; want 500", long, err)
			}
		})
	}
}

// A check that is enqueued through a pool exists also if the transaction that created the need for it is rolled back.
func TestAPoolIsNoTransaction(t *testing.T) {
	t.Parallel()
	for _, pool := range []any{new(sqlx.DB), new(sql.DB), new(sql.Conn), new(sqlx.Conn)} {
		if _, is := pool.(jobs.Tx); is {
			t.Errorf("a %T counts as a transaction", pool)
		}
	}
	for _, tx := range []any{new(sqlx.Tx), new(sql.Tx)} {
		if _, is := tx.(jobs.Tx); !is {
			t.Errorf("a %T counts as none", tx)
		}
	}
}

func TestEnqueueNowCommitsBeforeItReturns(t *testing.T) {
	t.Parallel()
	w := setup(t)
	if e, err := w.client.EnqueueNow(t.Context(), check("1", slot(1))); err != nil || e.Action != jobs.ActionInserted {
		t.Error(e, err)
	}
	if e, err := w.client.EnqueueNow(t.Context(), check("1", slot(2)), jobs.Replace); err != nil || e.Action != jobs.ActionReplaced {
		t.Error(e, err)
	}
	if rows := w.waiting(); len(rows) != 1 || !rows[0].NextCheckAt.Equal(slot(2)) {
		t.Errorf("%v", rows)
	}
}
