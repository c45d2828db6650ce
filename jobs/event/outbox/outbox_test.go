package outbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

type world struct {
	t   *testing.T
	db  *sqlx.DB
	box *outbox.Outbox
}

func setup(t *testing.T) *world {
	t.Helper()
	db := pgtest.New(t)
	return &world{t, db, outbox.New(db, "")}
}

func happened(subject string, n int) event.Event {
	return event.Event{ID: fmt.Sprintf("%s-%d", subject, n), Source: "test", Type: "happened", Subject: subject}
}

func (w *world) publish(tx *sqlx.Tx, events ...event.Event) {
	w.t.Helper()
	if err := w.box.PublishTx(w.t.Context(), tx, events); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read(after outbox.Position, limit int) []outbox.Stored {
	w.t.Helper()
	list, err := w.box.Read(w.t.Context(), after, limit)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// readAll reads until there are n events: other tests on the server hold them back for a moment.
func (w *world) readAll(n int) (list []outbox.Stored) {
	w.t.Helper()
	for deadline := time.Now().Add(await.Limit); len(list) < n; {
		if list = w.read(outbox.Position{}, 1_000_000); time.Now().After(deadline) {
			w.t.Fatalf("%d events, want %d", len(list), n)
		}
	}
	return list
}

func ids(list []outbox.Stored) string {
	var all []string
	for _, s := range list {
		all = append(all, s.ID)
	}
	return strings.Join(all, " ")
}

func TestWhatIsPublishedIsReadInItsOrder(t *testing.T) {
	t.Parallel()
	w := setup(t)
	whole := event.Event{
		ID: "ü \"\\{},'NULL", Source: "/shop?a=1", Type: "order.placed", Subject: "42",
		Time: time.Date(2030, 3, 1, 12, 0, 0, 123456000, time.UTC), PublishedAt: time.Date(2030, 3, 1, 12, 15, 0, 0, time.UTC),
		Data: json.RawMessage(`{"b":1.50, "a":"\u0000", "b":2}`),
	}
	least := event.Event{ID: "2", Source: "s", Type: "t"}
	if err := w.box.Publish(t.Context(), []event.Event{whole, least}); err != nil {
		t.Fatal(err)
	}
	if err := w.box.Publish(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	got := w.readAll(2)
	if diff := cmp.Diff([]event.Event{whole, least}, []event.Event{got[0].Event, got[1].Event}); diff != "" {
		t.Error(diff)
	}
	if got[0].WrittenAt.IsZero() || got[0].Position == got[1].Position {
		t.Errorf("%+v", got)
	}
	if first := w.read(outbox.Position{}, 1); ids(first) != whole.ID || ids(w.read(first[0].Position, 9)) != "2" {
		t.Errorf("in pages: %v", first)
	}
}

func TestABadEventSpoilsItsBatchBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	w := setup(t)
	err := w.box.Publish(t.Context(), []event.Event{happened("a", 1), {ID: "b", Source: "a b", Type: "t"}})
	if err == nil || !strings.Contains(err.Error(), `event 2 of 2, id "b": source`) {
		t.Errorf("got %v", err)
	}
	if got := w.read(outbox.Position{}, 9); len(got) != 0 {
		t.Errorf("%d events", len(got))
	}
}

// A schedule of each minute has sent a hundred messages soon. The one that waits is the one to know of.
func TestTheNewestMessagesOfASubjectAreListed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.db.MustExecContext(t.Context(), `
		insert into prescient.event_consumer (name, mark, position, types) values ('receiver:ops', '0', 0, '{prescient.notify.ops}');
		insert into prescient.event_sent (consumer, source, id, subject, sent_at)
		select 'receiver:ops', 'test', 'standup-' || n, 'standup', timestamptz '2001-01-01' + n * interval '1 minute'
		from generate_series(1, 150) as n;
		insert into prescient.event_outbox (id, source, type, subject, data)
		values ('standup-151', 'test', 'prescient.notify.ops', 'standup', '{"text": "Standup"}')`)
	list, err := w.box.Messages(reserved.Caller{}, t.Context(), "standup")
	if err != nil || len(list) != 100 {
		t.Fatalf("%d messages, %v", len(list), err)
	}
	if last := list[99]; last.State != outbox.ToldWaits || last.Text != "Standup" || list[98].State != outbox.ToldSent {
		t.Errorf("the last are %+v", list[98:])
	}
}

// A payload may have a text that the database refuses to take out of JSON.
func TestMessagesAreListedWhateverTextsTheirDataHave(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.db.MustExecContext(t.Context(), `
		insert into prescient.event_consumer (name, mark, position, types) values ('receiver:ops', '0', 0, '{prescient.notify.ops}');
		insert into prescient.event_dead (consumer, id, source, type, subject, data, dead_at)
		values ('receiver:ops', '1', 'test', 'prescient.notify.ops', 'standup', '{"text": "dead", "payload": "\u0000"}', '2001-01-01');
		insert into prescient.event_outbox (id, source, type, subject, data)
		values ('2', 'test', 'prescient.notify.ops', 'standup', '{"text": "waits", "payload": "\ud800"}')`)
	list, err := w.box.Messages(reserved.Caller{}, t.Context(), "standup")
	if err != nil || len(list) != 2 || list[0].Text != "dead" || list[1].Text != "waits" {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestEventsExistIfAndOnlyIfTheirTransactionCommits(t *testing.T) {
	t.Parallel()
	w := setup(t)
	lost := w.db.MustBegin()
	w.publish(lost, happened("lost", 1))
	if err := lost.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := w.box.Publish(t.Context(), []event.Event{happened("kept", 1)}); err != nil {
		t.Fatal(err)
	}
	if got := ids(w.readAll(1)); got != "kept-1" {
		t.Errorf("read %s", got)
	}
}

func TestAPublisherWithSomethingAroundItIsInTheTransactionStill(t *testing.T) {
	t.Parallel()
	w := setup(t)
	counted := 0
	p := event.WrapTx(w.box, func(ctx context.Context, events []event.Event, publish func(context.Context) error) error {
		counted += len(events)
		return publish(ctx)
	})
	for _, end := range []func(*sqlx.Tx) error{(*sqlx.Tx).Rollback, (*sqlx.Tx).Commit} {
		tx := w.db.MustBegin()
		if err := p.PublishTx(t.Context(), tx, []event.Event{happened("a", counted)}); err != nil {
			t.Fatal(err)
		}
		if err := end(tx); err != nil {
			t.Fatal(err)
		}
	}
	if got := ids(w.readAll(1)); got != "a-1" || counted != 2 {
		t.Errorf("read %s of %d", got, counted)
	}
}

// The trap of every outbox: the transaction with the lower position commits after the reader has
// gone past it. Not in parallel: no transaction of another test may bring out the last event.
func TestAReaderMissesNothingOfATransactionThatCommitsLater(t *testing.T) {
	w := setup(t)
	slow, quick := w.db.MustBegin(), w.db.MustBegin()
	w.publish(slow, happened("slow", 1))
	w.publish(quick, happened("quick", 1))
	if err := quick.Commit(); err != nil {
		t.Fatal(err)
	}
	first := w.read(outbox.Position{}, 9)
	if len(first) != 0 {
		t.Errorf("%s is read, though an earlier position may still be committed", ids(first))
	}
	w.publish(slow, happened("slow", 2))
	if err := slow.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := ids(w.readAll(3)); got != "slow-1 quick-1 slow-2" && got != "slow-1 slow-2 quick-1" {
		t.Errorf("read %s", got)
	}
}

// The transaction that began first writes last, after the other one has committed: what it writes
// comes after. Not in parallel: no transaction of another test may bring out the last event.
func TestAnEventIsReadAfterWhatWasCommittedBeforeItWasWritten(t *testing.T) {
	w := setup(t)
	early := w.db.MustBegin()
	if _, err := early.ExecContext(t.Context(), `select pg_current_xact_id()`); err != nil {
		t.Fatal(err)
	}
	if err := w.box.Publish(t.Context(), []event.Event{happened("a", 1)}); err != nil {
		t.Fatal(err)
	}
	w.publish(early, happened("a", 2))
	if err := early.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := ids(w.readAll(2)); got != "a-1 a-2" {
		t.Errorf("read %s", got)
	}
}

// On Citus, a transaction that a dead session has left prepared may be of this schema. One of another
// database is not. Not in parallel: no transaction of another test may hold back the event.
func TestATransactionThatCitusHasPreparedHoldsReadersOfItsDatabaseBack(t *testing.T) {
	pgtest.NotOnCitus(t, "it would end it")
	w, other := setup(t), pgtest.New(t)
	if err := w.box.Publish(t.Context(), []event.Event{happened("a", 1)}); err != nil {
		t.Fatal(err)
	}
	for _, db := range []*sqlx.DB{w.db, other} {
		db.MustExec("begin; create table public.left_behind (); prepare transaction 'citus_left_behind'")
		want := ""
		if db == other {
			want = "a-1"
		}
		if got := ids(w.read(outbox.Position{}, 9)); got != want {
			t.Errorf("%q is read, want %q", got, want)
		}
		db.MustExec("rollback prepared 'citus_left_behind'")
	}
}

// What a reader waits for is the server's: nothing tells whose tables a transaction will write to.
func TestATransactionInAnotherDatabaseOfTheServerHoldsReadersBack(t *testing.T) {
	t.Parallel()
	w, other := setup(t), pgtest.New(t).MustBegin()
	if _, err := other.ExecContext(t.Context(), `select pg_current_xact_id()`); err != nil {
		t.Fatal(err)
	}
	if err := w.box.Publish(t.Context(), []event.Event{happened("a", 1)}); err != nil {
		t.Fatal(err)
	}
	if got := w.read(outbox.Position{}, 9); len(got) != 0 {
		t.Errorf("%s is read", ids(got))
	}
	if err := other.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := ids(w.readAll(1)); got != "a-1" {
		t.Errorf("read %s", got)
	}
}

func TestAReaderBesideManyWritersSeesEveryEventOnceAndEachSubjectInOrder(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const writers, rounds = 8, 60
	if _, err := w.db.ExecContext(t.Context(), `create table counter (subject int primary key, n int); insert into counter select n, 0 from generate_series(0, 2) as n`); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for n := range rounds {
				if err := w.writeNext((i + n) % 3); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	last := map[string]int{}
	var after outbox.Position
	seen := 0
	for deadline := time.Now().Add(await.Limit); seen < writers*rounds && !t.Failed() && time.Now().Before(deadline); {
		for _, s := range w.read(after, 7) {
			var n int
			if _, err := fmt.Sscanf(s.ID, s.Subject+"-%d", &n); err != nil || n != last[s.Subject]+1 {
				t.Errorf("%s after %d, %v", s.ID, last[s.Subject], err)
			}
			last[s.Subject] = n
			after = s.Position
			seen++
		}
	}
	<-done
	if seen != writers*rounds {
		t.Errorf("%d events were read, want %d", seen, writers*rounds)
	}
}

// writeNext publishes the next event of a subject, whose number a row gives: several transactions
// wait for that row, each with something written already.
func (w *world) writeNext(subject int) error {
	return pgsql.InTx(w.t.Context(), w.db, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(w.t.Context(), `select pg_current_xact_id()`); err != nil {
			return err
		}
		var n int
		if err := tx.GetContext(w.t.Context(), &n, `update counter set n = n + 1 where subject = $1 returning n`, subject); err != nil {
			return err
		}
		return w.box.PublishTx(w.t.Context(), tx, []event.Event{happened(fmt.Sprint("s", subject), n)})
	})
}

func TestAConsumerGoesForwardAlone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ctx := t.Context()
	if err := w.box.Publish(ctx, []event.Event{happened("a", 1), happened("a", 2)}); err != nil {
		t.Fatal(err)
	}
	list := w.readAll(2)
	for _, step := range []struct{ upTo, want outbox.Position }{
		{list[0].Position, list[0].Position}, {list[1].Position, list[1].Position}, {list[0].Position, list[1].Position},
	} {
		c, err := w.box.Ack(ctx, "billing", step.upTo)
		if err != nil || c.Position != step.want || c.AckedAt.IsZero() {
			t.Errorf("ack %s: %+v, %v; want %s", step.upTo, c, err, step.want)
		}
	}
	if c, err := w.box.Consumer(ctx, "billing"); err != nil || c.Position != list[1].Position {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := w.box.Consumer(ctx, "nobody"); !errors.Is(err, outbox.ErrNoConsumer) {
		t.Errorf("got %v", err)
	}
	if _, err := w.box.Ack(ctx, "billing", outbox.Position{Mark: 1 << 60}); !errors.Is(err, outbox.ErrNotReadable) {
		t.Errorf("an ack of the future: %v", err)
	}
	for _, name := range []string{"", "a\nb", strings.Repeat("x", 201)} {
		if _, err := w.box.Ack(ctx, name, list[0].Position); err == nil || !strings.Contains(err.Error(), "name of a consumer") {
			t.Errorf("consumer %q: %v", name, err)
		}
	}
}

func TestPruneDeletesWhatEveryConsumerHasAcknowledged(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ctx := t.Context()
	prune := func(before time.Time, want int64) {
		t.Helper()
		if n, err := w.box.Prune(ctx, before); n != want || err != nil {
			t.Errorf("%d pruned, %v; want %d", n, err, want)
		}
	}
	const events = 25_000 // more than one transaction deletes
	var list []event.Event
	for n := range events {
		list = append(list, happened("a", n))
	}
	if err := w.box.Publish(ctx, list); err != nil {
		t.Fatal(err)
	}
	all := w.readAll(events)
	prune(time.Time{}, 0)
	ack := func(consumer string, n int) {
		t.Helper()
		if _, err := w.box.Ack(ctx, consumer, all[n-1].Position); err != nil {
			t.Fatal(err)
		}
	}
	ack("slow", 10)
	ack("quick", 20_500)
	prune(time.Time{}, 10)
	ack("slow", 20_100)
	prune(time.Time{}, 20_090)
	if err := w.box.Forget(ctx, "slow"); err != nil {
		t.Fatal(err)
	}
	prune(all[0].WrittenAt, 0)
	prune(all[0].WrittenAt.Add(time.Hour), 400)
	prune(all[0].WrittenAt.Add(time.Hour), 0) // the rest is old, but not read
	if got := w.read(all[20_499].Position, events); len(got) != events-20_500 {
		t.Errorf("%d events are left to the consumer, want %d", len(got), events-20_500)
	}
	if err := w.box.Forget(ctx, "slow"); !errors.Is(err, outbox.ErrNoConsumer) {
		t.Errorf("forget nobody: %v", err)
	}
	if consumers, err := w.box.Consumers(ctx); err != nil || len(consumers) != 1 || consumers[0].Name != "quick" {
		t.Errorf("%+v, %v", consumers, err)
	}
}

func TestWithoutAConsumerTheAgeOfEventsDecides(t *testing.T) {
	t.Parallel()
	w := setup(t)
	if err := w.box.Publish(t.Context(), []event.Event{happened("a", 1), happened("a", 2)}); err != nil {
		t.Fatal(err)
	}
	last := w.readAll(2)[1]
	for _, step := range []struct {
		before time.Time
		want   int64
	}{{time.Time{}, 0}, {last.WrittenAt.Add(-time.Hour), 0}, {last.WrittenAt.Add(time.Hour), 2}} {
		if n, err := w.box.Prune(t.Context(), step.before); n != step.want || err != nil {
			t.Errorf("%d pruned before %s, %v; want %d", n, step.before, err, step.want)
		}
	}
}

// A reader that continues behind removed events must not miss an earlier event that commits later.
func TestWhatNoReaderCanSeeYetIsNotPruned(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ctx := t.Context()
	early := w.db.MustBegin()
	defer func() { _ = early.Rollback() }()
	w.publish(early, happened("early", 1))
	if err := w.box.Publish(ctx, []event.Event{happened("late", 1)}); err != nil {
		t.Fatal(err)
	}
	for name, prune := range map[string]func(context.Context, time.Time) (int64, error){"Prune": w.box.Prune, "PruneUnread": w.box.PruneUnread} {
		if n, err := prune(ctx, time.Date(9000, time.January, 1, 0, 0, 0, 0, time.UTC)); n != 0 || err != nil {
			t.Errorf("%s: %d pruned, %v; want 0", name, n, err)
		}
	}
	if err := early.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := ids(w.readAll(2)); got != "early-1 late-1" {
		t.Errorf("read %s", got)
	}
}

// Of two events the later one may have been written a moment before, by the clock.
func TestHowFarWasPrunedNeverGoesBack(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.db.MustExec(`insert into prescient.event_outbox (mark, id, source, type, written_at)
		values ('5', 'a', 's', 't', '2030-01-02 00:00Z'), ('6', 'b', 's', 't', '2030-01-01 00:00Z')`)
	w.readAll(2)
	for _, day := range []int{2, 3} {
		if n, err := w.box.PruneUnread(t.Context(), time.Date(2030, time.January, day, 0, 0, 0, 0, time.UTC)); n != 1 || err != nil {
			t.Errorf("%d pruned, %v; want 1", n, err)
		}
	}
	lost, is := errors.AsType[*outbox.LostError](w.box.Lost(t.Context(), outbox.Position{Mark: 5, Number: 1}))
	if !is || lost.UpTo.Mark != 6 {
		t.Errorf("%v", lost)
	}
}

func TestAReaderIsToldOfWhatWasRemovedBeforeItReadIt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ctx := t.Context()
	publish := func(n int) {
		t.Helper()
		if err := w.box.Publish(ctx, []event.Event{happened("a", n)}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 4 {
		publish(n)
	}
	all := w.readAll(4)
	if _, err := w.box.Ack(ctx, "billing", all[1].Position); err != nil {
		t.Fatal(err)
	}
	if n, err := w.box.PruneUnread(ctx, all[2].WrittenAt.Add(time.Microsecond)); n < 3 || err != nil {
		t.Fatalf("%d pruned, %v", n, err)
	}
	for _, after := range []outbox.Position{all[0].Position, all[1].Position, {Mark: 1}} {
		list, err := w.box.Read(ctx, after, 9)
		lost, ok := errors.AsType[*outbox.LostError](err)
		if !ok || len(list) > 0 {
			t.Errorf("after %s: %s, %v", after, ids(list), err)
			continue
		}
		if lost.After != after || lost.UpTo != all[2].Position || !lost.WrittenAt.Equal(all[2].WrittenAt) || lost.RemovedAt.Before(lost.WrittenAt) {
			t.Errorf("after %s: %+v", after, lost)
		}
	}
	// Who has read the last one that is gone has lost nothing, and who begins has not either.
	for _, after := range []outbox.Position{all[2].Position, {}} {
		if got := ids(w.read(after, 9)); got != "a-3" {
			t.Errorf("after %s: read %s", after, got)
		}
	}
	if _, ok := errors.AsType[*outbox.LostError](w.box.Lost(ctx, outbox.Position{})); !ok {
		t.Error("who was at the beginning before is not told")
	}
	if err := w.box.Lost(ctx, all[2].Position); err != nil {
		t.Errorf("who has lost nothing: %v", err)
	}
	// Pruning what all consumers have acknowledged moves no consumer back: the watermark only goes forward.
	publish(4)
	if _, err := w.box.Ack(ctx, "billing", all[2].Position); err != nil {
		t.Fatal(err)
	}
	if n, err := w.box.Prune(ctx, time.Time{}); n != 0 || err != nil {
		t.Errorf("%d pruned, %v", n, err)
	}
	if err := w.box.Lost(ctx, all[2].Position); err != nil {
		t.Error(err)
	}
}

func TestPositionsAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for _, p := range []outbox.Position{{}, {7311, 42}, {1<<64 - 1, 1<<63 - 1}} {
		if got, err := outbox.ParsePosition(p.String()); got != p || err != nil {
			t.Errorf("%s: %v, %v", p, got, err)
		}
	}
	for _, text := range []string{"", "1", "-", "1-", "-1", "1--1", "01-1", "+1-1", "1-1 ", "1-9223372036854775808", "18446744073709551616-1", "a-b"} {
		if got, err := outbox.ParsePosition(text); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

func FuzzParsePosition(f *testing.F) {
	f.Add("7311-42")
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := outbox.ParsePosition(text); err == nil && p.String() != text {
			t.Errorf("%q is %s", text, p)
		}
	})
}

func TestTheNewestEventsAreThoseThatCanBeReadInTheirOrder(t *testing.T) {
	t.Parallel()
	w := setup(t)
	if got, err := w.box.Newest(t.Context(), 3); err != nil || len(got) != 0 {
		t.Fatalf("of none: %v, %v", got, err)
	}
	for n := range 5 {
		w.publish1(happened("a", n))
	}
	w.readAll(5)
	for limit, want := range map[int]string{1: "a-4", 3: "a-2 a-3 a-4", 5: "a-0 a-1 a-2 a-3 a-4", 9: "a-0 a-1 a-2 a-3 a-4"} {
		if got := w.newest(limit); ids(got) != want {
			t.Errorf("the newest %d: got %q, want %q", limit, ids(got), want)
		}
	}

	open := w.db.MustBegin()
	defer func() { _ = open.Rollback() }()
	w.publish(open, happened("open", 1))
	w.publish1(happened("after", 1))
	before := w.newest(2)
	if ids(before) != "a-3 a-4" {
		t.Errorf("while an earlier transaction is open: %q", ids(before))
	}
	if err := open.Commit(); err != nil {
		t.Fatal(err)
	}
	w.readAll(7)
	if got := w.read(before[1].Position, 9); ids(got) != "open-1 after-1" {
		t.Errorf("a reader that goes on after the newest gets %q", ids(got))
	}
}

// publish1 publishes an event in a transaction of its own.
func (w *world) publish1(e event.Event) {
	w.t.Helper()
	if err := w.box.Publish(w.t.Context(), []event.Event{e}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) newest(limit int) []outbox.Stored {
	w.t.Helper()
	list, err := w.box.Newest(w.t.Context(), limit)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// restore changes the marks of the outbox as a restore into another server does, whose transaction
// numbers are lower.
func (w *world) restore() {
	for _, table := range []string{"event_outbox", "event_consumer", "event_watermark"} {
		w.db.MustExec("update prescient." + table + " set mark = (mark::text::bigint + 1000000000)::text::xid8 where mark > '1'")
	}
	w.db.MustExec("insert into prescient.slot_run (slot, state, kind, planned, horizon) values ('2030-01-01Z', 'open', 'run', 0, '1000000000')")
}

func TestAfterARestoreEachConsumerGetsWhatItHadNotAcknowledged(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ctx := t.Context()
	for n := range 6 {
		if err := w.box.Publish(ctx, []event.Event{happened("old", n)}); err != nil {
			t.Fatal(err)
		}
	}
	all := w.readAll(6)
	for name, at := range map[string]outbox.Position{"begins": {}, "behind": all[0].Position, "slow": all[2].Position, "quick": all[5].Position} {
		if _, err := w.box.Ack(ctx, name, at); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := w.box.PruneUnread(ctx, all[1].WrittenAt.Add(time.Microsecond)); n != 2 || err != nil {
		t.Fatalf("%d pruned, %v", n, err)
	}
	for again := range 2 { // of a copy that was restored before, too
		w.restore()
		if c, err := w.box.Consumer(ctx, "slow"); err != nil || c.Ahead != (again == 0) {
			t.Fatalf("%+v, %v", c, err)
		}
		// The new server has worked before anyone looked.
		if err := w.box.Publish(ctx, []event.Event{happened("new", again)}); err != nil {
			t.Fatal(err)
		}
		if n, err := w.box.Renumber(reserved.Caller{}, ctx); n != (outbox.Renumbered{Events: int64(4 + again), Consumers: 3}) || err != nil {
			t.Errorf("%+v, %v", n, err)
		}
		if n, err := w.box.Renumber(reserved.Caller{}, ctx); n != (outbox.Renumbered{}) || err != nil {
			t.Errorf("once more: %+v, %v", n, err)
		}
		want := "new-0"
		if again > 0 {
			want += " new-1"
		}
		w.readAll(5 + again)
		for name, unread := range map[string]string{"slow": "old-3 old-4 old-5 " + want, "quick": want} {
			c, err := w.box.Consumer(ctx, name)
			if err != nil || c.Ahead {
				t.Errorf("%+v, %v", c, err)
			}
			if got := ids(w.read(c.Position, 99)); got != unread {
				t.Errorf("%s gets %s, want %s", name, got, unread)
			}
		}
		for _, name := range []string{"begins", "behind"} {
			c, _ := w.box.Consumer(ctx, name)
			if lost, is := errors.AsType[*outbox.LostError](w.box.Lost(ctx, c.Position)); !is {
				t.Errorf("%s is not told that events are gone", name)
			} else if got := ids(w.read(lost.UpTo, 99)); got != "old-2 old-3 old-4 old-5 "+want {
				t.Errorf("%s goes on with %s", name, got)
			}
		}
		var open int
		if err := w.db.Get(&open, "select count(*) from prescient.slot_run where horizon <> '0'"); err != nil || open > 0 {
			t.Errorf("%d slots wait for a transaction of the old server, %v", open, err)
		}
		w.db.MustExec("delete from prescient.slot_run")
	}
}
