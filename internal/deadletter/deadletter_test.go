package deadletter_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/deadletter"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

type world struct {
	t    *testing.T
	db   *sqlx.DB
	list *deadletter.List
}

// setup has the dead letters a1, b1, c1, and c2 behind c1, of destination desk; d1 is tried again.
func setup(t *testing.T) *world {
	t.Helper()
	db := pgtest.New(t)
	db.MustExec(`
		insert into prescient.event_dead (consumer, id, source, type, subject, refusals, error, dead_at)
		select 'desk', id, 'test', 'happened', left(id, 1), n, nullif(error, ''), clock_timestamp()
		from (values ('a1', 3, '422'), ('b1', 1, '422'), ('c1', 1, '422'), ('c2', 0, '')) as l (id, n, error);
		insert into prescient.event_dead (consumer, id, source, type, subject, refusals, error, try_at)
		values ('desk', 'd1', 'test', 'happened', 'd', 1, '422', now() + interval '1 hour')`)
	return &world{t, db, deadletter.NewList(db, "")}
}

func (w *world) dead() string {
	w.t.Helper()
	page, _, err := w.list.Page(w.t.Context(), deadletter.Filter{}, 0, 100)
	if err != nil {
		w.t.Fatal(err)
	}
	var list []string
	for _, d := range page {
		list = append(list, fmt.Sprint(d.ID, ":", d.Refusals))
	}
	return strings.Join(list, " ")
}

func TestLettersAreSelectedByDestinationSubjectAndID(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for f, want := range map[deadletter.Filter]int64{
		{}: 4, {Subject: "c"}: 2, {ID: "c2"}: 1, {Subject: "a", ID: "c2"}: 0, {Consumer: "desk"}: 4, {Consumer: "other"}: 0, {ID: "d1"}: 0,
	} {
		if found, err := w.list.Count(t.Context(), f); err != nil || found.Letters != want {
			t.Errorf("%+v: %+v, %v", f, found, err)
		}
	}
	of := func(f deadletter.Filter) deadletter.Counted {
		found, err := w.list.Count(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	all, first, second := of(deadletter.Filter{}), of(deadletter.Filter{ID: "c1"}), of(deadletter.Filter{ID: "c2"})
	if first.Digest == second.Digest || of(deadletter.Filter{Until: all.Until}) != all {
		t.Errorf("%+v, %+v, %+v", all, first, second)
	}
	if before := of(deadletter.Filter{Until: all.Until.Add(-time.Microsecond)}); before.Letters >= all.Letters {
		t.Errorf("%+v were given up before the newest of %+v", before, all)
	}
	if n, err := deadletter.Discard(t.Context(), w.db, "", deadletter.Filter{ID: "c1"}); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	if got := w.dead(); got != "a1:3 b1:1 c2:0" {
		t.Error(got)
	}
}

func TestOnlyTheFirstLetterOfASubjectIsTriedAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	if n, err := deadletter.Retry(t.Context(), w.db, "", deadletter.Filter{Subject: "c"}); err != nil || n != 2 {
		t.Errorf("%d, %v", n, err)
	}
	var due []string
	if err := w.db.Select(&due, `select id from prescient.event_dead where try_at <= clock_timestamp()`); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"c1"}, due); diff != "" {
		t.Error(diff)
	}
	if got := w.dead(); got != "a1:3 b1:1" {
		t.Error(got)
	}
}

func TestALetterHasTheWholeEvent(t *testing.T) {
	t.Parallel()
	w := setup(t)
	whole := event.Event{
		ID: "ü", Source: "/shop?a=1", Type: "order.placed", Subject: "42", Time: time.Date(2030, 3, 1, 12, 0, 0, 123456000, time.UTC),
		PublishedAt: time.Date(2030, 3, 1, 12, 15, 0, 0, time.UTC), Data: json.RawMessage(`{"b":1.50, "a":"\u0000", "b":2}`),
	}
	w.db.MustExec(`insert into prescient.event_dead (consumer, id, source, type, subject, time, published_at, data, refusals, error, dead_at)
		values ('desk', $1, $2, $3, $4, $5, $6, $7, 1, '422', now())`,
		whole.ID, whole.Source, whole.Type, whole.Subject, whole.Time, whole.PublishedAt, string(whole.Data))
	page, _, err := w.list.Page(t.Context(), deadletter.Filter{ID: "ü"}, 0, 10)
	if err != nil || len(page) != 1 {
		t.Fatal(page, err)
	}
	if diff := cmp.Diff(whole, page[0].Event); diff != "" {
		t.Error(diff)
	}
	if page[0].Error != "422" || page[0].DeadAt.IsZero() || page[0].Consumer != "desk" {
		t.Errorf("%+v", page[0])
	}
}

func TestAFilterThatSelectsEveryLetterMustSaySo(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for name, call := range map[string]func(context.Context, pg.Querier, pgsql.Schema, deadletter.Filter) (int64, error){
		"Retry": deadletter.Retry, "Discard": deadletter.Discard,
	} {
		if _, err := call(t.Context(), db, "", deadletter.Filter{}); err == nil || !strings.Contains(err.Error(), "the filter must name something, or be All") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := call(t.Context(), db, "", deadletter.Filter{All: true}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A letter that is tried again waits for an earlier one of its subject that a forwarder settles at the same time.
func TestALetterIsTriedAgainWhileTheOneBeforeItIsSettled(t *testing.T) {
	t.Parallel()
	w, schema := setup(t), pgsql.DefaultSchema
	w.db.MustExec(`
		insert into prescient.event_consumer (name, mark, position, token, allocated_until)
		values ('desk', '0', 0, 1, now() + interval '1 minute');
		insert into prescient.event_dead (consumer, id, source, type, subject, refusals, error, dead_at)
		values ('desk', 'd2', 'test', 'happened', 'd', 1, '422', clock_timestamp()), ('other', 'o1', 'test', 'happened', 'o', 1, '422', clock_timestamp())`)
	forwarder := w.db.MustBegin()
	defer func() { _ = forwarder.Rollback() }()
	forwarder.MustExec(pg.EventForwarded.In(schema), "desk", 1, "0", 0, nil, 60, false)
	if _, err := deadletter.Retry(t.Context(), w.db, schema, deadletter.Filter{Subject: "o"}); err != nil { // waits for no other destination
		t.Error(err)
	}
	forwarder.MustExec("delete from prescient.event_dead where id = 'd1'")
	ended := make(chan error)
	go func() {
		ended <- pgsql.InTx(t.Context(), w.db, func(tx *sqlx.Tx) error {
			_, err := deadletter.Retry(t.Context(), tx, schema, deadletter.Filter{ID: "d2"})
			return err
		})
	}()
	pgtest.AwaitWaits(t, w.db, 1)
	forwarder.MustExec(pg.EventDeadHead.In(schema), "desk", "{d}")
	if err := forwarder.Commit(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	var tried bool
	if err := w.db.Get(&tried, "select try_at is not null from prescient.event_dead where id = 'd2'"); err != nil || !tried {
		t.Errorf("d2 is tried: %t, %v", tried, err)
	}
}

// A forwarder records that its destination has refused an event, while the consumer is forgotten.
func TestAForgottenConsumerLeavesNoLetterBehind(t *testing.T) {
	t.Parallel()
	w, schema := setup(t), pgsql.DefaultSchema
	w.db.MustExec(`insert into prescient.event_consumer (name, mark, position, token, allocated_until)
		values ('desk', '0', 0, 1, now() + interval '1 minute')`)
	forwarder := w.db.MustBegin()
	defer func() { _ = forwarder.Rollback() }()
	forwarder.MustExec(pg.EventForwarded.In(schema), "desk", 1, "0", 0, nil, 60, false)
	forwarder.MustExec(`insert into prescient.event_dead (consumer, id, source, type, subject, refusals, error, try_at)
		values ('desk', 'e1', 'test', 'happened', 'e', 1, '422', now())`)
	ended := make(chan error)
	go func() { ended <- outbox.New(w.db, schema).Forget(t.Context(), "desk") }()
	pgtest.AwaitWaits(t, w.db, 1)
	if err := forwarder.Commit(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	var left []string
	if err := w.db.Select(&left, "select id from prescient.event_dead"); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}
