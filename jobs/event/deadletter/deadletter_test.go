package deadletter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs/egress"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/deadletter"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	_ "github.com/prescient-go/prescient/jobs/event/webhook"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// receiver is a destination that refuses the events with some ids.
type receiver struct {
	mu      sync.Mutex
	refuses map[string]bool
	down    error
	got     []string
}

func (r *receiver) Publish(_ context.Context, events []event.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down != nil {
		return r.down
	}
	errs := make([]error, len(events))
	for _, chain := range event.BySubject(events) {
		event.InOrder(chain, errs, func(i int) error {
			if r.refuses[events[i].ID] {
				return errors.New("422")
			}
			r.got = append(r.got, events[i].ID)
			return nil
		})
	}
	return event.Partial(errs)
}

func (r *receiver) Close() error { return nil }

func (r *receiver) refuse(ids ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuses = map[string]bool{}
	for _, id := range ids {
		r.refuses[id] = true
	}
}

type world struct {
	t        *testing.T
	db       *sqlx.DB
	receiver *receiver
	list     *deadletter.List
	p        event.Publisher
}

func setup(t *testing.T, cfg deadletter.Config) *world {
	t.Helper()
	w := &world{t: t, db: pgtest.New(t), receiver: &receiver{}}
	cfg.DB = w.db
	w.list = deadletter.NewList(w.db, "")
	w.p = deadletter.New(w.receiver, cfg)
	return w
}

// of returns events such as "a1", whose subjects are their letters.
func of(ids ...string) (list []event.Event) {
	for _, id := range ids {
		list = append(list, event.Event{ID: id, Source: "test", Type: "happened", Subject: strings.TrimRight(id, "0123456789")})
	}
	return list
}

// publish publishes events, and says what became of each: ok, blocked or failed.
func (w *world) publish(ids ...string) string {
	w.t.Helper()
	var list []string
	for _, err := range event.Errors(w.p.Publish(w.t.Context(), of(ids...)), len(ids)) {
		switch {
		case err == nil:
			list = append(list, "ok")
		case errors.Is(err, event.ErrBlocked):
			list = append(list, "blocked")
		default:
			list = append(list, "failed")
		}
	}
	return strings.Join(list, " ")
}

func (w *world) dead() string {
	w.t.Helper()
	page, err := w.list.Page(w.t.Context(), deadletter.Filter{}, 0, 100)
	if err != nil {
		w.t.Fatal(err)
	}
	var list []string
	for _, d := range page {
		list = append(list, fmt.Sprint(d.ID, ":", d.Refusals))
	}
	return strings.Join(list, " ")
}

func (w *world) got() string {
	w.receiver.mu.Lock()
	defer w.receiver.mu.Unlock()
	got := strings.Join(w.receiver.got, " ")
	w.receiver.got = nil
	return got
}

func (w *world) want(what, got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestAnEventThatIsRefusedOftenBecomesADeadLetterAndItsSubjectIsHeld(t *testing.T) {
	t.Parallel()
	w := setup(t, deadletter.Config{MaxRefusals: 3})
	w.receiver.refuse("a1")
	w.want("first", w.publish("a1", "b1", "a2"), "failed ok blocked")
	w.want("second", w.publish("a1", "a2"), "failed blocked")
	w.want("dead", w.dead(), "")
	w.want("third", w.publish("a1", "a2", "b2"), "ok ok ok")
	w.want("dead", w.dead(), "a1:3 a2:0")
	w.want("later", w.publish("a3", "b3", "a1"), "ok ok ok")
	w.want("dead", w.dead(), "a1:3 a2:0 a3:0")
	w.want("received", w.got(), "b1 b2 b3")

	sent, err := w.list.Send(t.Context(), w.receiver, deadletter.Filter{})
	if diff := cmp.Diff(deadletter.Sent{Refused: 1, Held: 2}, sent); diff != "" || err != nil {
		t.Error(diff, err)
	}
	w.want("dead", w.dead(), "a1:4 a2:0 a3:0")
	w.receiver.refuse()
	sent, err = w.list.Send(t.Context(), w.receiver, deadletter.Filter{})
	if diff := cmp.Diff(deadletter.Sent{Sent: 3}, sent); diff != "" || err != nil {
		t.Error(diff, err)
	}
	w.want("received", w.got(), "a1 a2 a3")
	w.want("after that", w.publish("a4"), "ok")
	w.want("received", w.got(), "a4")
}

func TestByChoiceLaterEventsOfTheSubjectGoOn(t *testing.T) {
	t.Parallel()
	w := setup(t, deadletter.Config{MaxRefusals: 2, Continue: true})
	w.receiver.refuse("a1", "a3")
	w.want("first", w.publish("a1", "a2"), "failed blocked")
	w.want("second", w.publish("a1", "a2", "a3", "a4"), "ok ok failed blocked")
	w.want("dead", w.dead(), "a1:2")
	w.want("third", w.publish("a1", "a3", "a4", "a5"), "ok ok ok ok")
	w.want("dead", w.dead(), "a1:2 a3:2")
	w.want("received", w.got(), "a2 a4 a5")
}

func TestAnEventThatIsAcceptedAfterAllCountsAnew(t *testing.T) {
	t.Parallel()
	w := setup(t, deadletter.Config{MaxRefusals: 2})
	w.receiver.refuse("a1")
	w.want("refused", w.publish("a1"), "failed")
	w.receiver.refuse()
	w.want("accepted", w.publish("a1"), "ok")
	w.receiver.refuse("a1")
	w.want("refused again", w.publish("a1"), "failed")
	w.want("dead", w.dead(), "")
}

func TestAnEventThatWasRefusedForLongBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	w := setup(t, deadletter.Config{MaxAge: time.Hour})
	w.receiver.refuse("a1")
	w.want("first", w.publish("a1"), "failed")
	w.want("soon after", w.publish("a1"), "failed")
	w.db.MustExec("update prescient.event_dead set refused_at = statement_timestamp() - interval '1 hour'")
	w.want("an hour later", w.publish("a1"), "ok")
	w.want("dead", w.dead(), "a1:3")
}

func TestEventsWithoutASubjectHoldNothingBack(t *testing.T) {
	t.Parallel()
	w := setup(t, deadletter.Config{MaxRefusals: 1})
	w.receiver.refuse("1")
	w.want("first", w.publish("1"), "ok")
	w.want("second", w.publish("2"), "ok")
	w.want("dead", w.dead(), "1:1")
	w.want("received", w.got(), "2")
}

func TestADestinationThatIsDownAsAWholeRefusesNoEvent(t *testing.T) {
	t.Parallel()
	w := setup(t, deadletter.Config{MaxRefusals: 1})
	w.receiver.down = errors.New("no route")
	if err := w.p.Publish(t.Context(), of("a1", "b1")); !errors.Is(err, w.receiver.down) {
		t.Errorf("%v", err)
	}
	w.want("dead", w.dead(), "")
	w.receiver.down = nil
	w.receiver.refuse("a1")
	w.want("refused", w.publish("a1"), "ok")
	w.receiver.down = errors.New("no route")
	w.want("down, behind a dead letter", w.publish("a2", "b1"), "ok failed")
	w.want("dead", w.dead(), "a1:1 a2:0")
	if sent, err := w.list.Send(t.Context(), w.receiver, deadletter.Filter{}); !errors.Is(err, w.receiver.down) || sent != (deadletter.Sent{}) {
		t.Errorf("%+v, %v", sent, err)
	}
	w.want("dead", w.dead(), "a1:1 a2:0")
}

func TestAnAddressThatTheSettingsForbidIsNoRefusal(t *testing.T) {
	t.Parallel()
	w := setup(t, deadletter.Config{MaxRefusals: 1})
	w.receiver.refuse("a1")
	w.want("refused", w.publish("a1"), "ok")
	webhook, err := event.Open(t.Context(), "http://127.0.0.1:9/", event.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p := deadletter.New(webhook, deadletter.Config{DB: w.db, MaxRefusals: 1})
	if err := p.Publish(t.Context(), of("b1")); !errors.Is(err, egress.ErrAddress) {
		t.Errorf("%v", err)
	}
	if sent, err := w.list.Send(t.Context(), webhook, deadletter.Filter{}); !errors.Is(err, egress.ErrAddress) || sent != (deadletter.Sent{}) {
		t.Errorf("%+v, %v", sent, err)
	}
	w.want("dead", w.dead(), "a1:1")
}

func TestWithoutALimitAndForTheOutboxNothingIsGivenUp(t *testing.T) {
	t.Parallel()
	w := setup(t, deadletter.Config{})
	if w.p != event.Publisher(w.receiver) {
		t.Errorf("%T", w.p)
	}
	box := outbox.New(w.db, "")
	if p := deadletter.New(box, deadletter.Config{DB: w.db, MaxRefusals: 1}); p != event.Publisher(box) {
		t.Errorf("%T", p)
	}
}

func TestTheRefusalsOfAnEventThatNoCheckTriesAreForgotten(t *testing.T) {
	t.Parallel()
	w := setup(t, deadletter.Config{MaxRefusals: 2})
	w.receiver.refuse("a1", "b1", "c1")
	w.want("first", w.publish("a1", "b1", "c1"), "failed failed failed")
	w.want("a dead letter", w.publish("c1"), "ok")
	w.db.MustExec("update prescient.event_dead set refused_at = statement_timestamp() - interval '8 days', tried_at = statement_timestamp() - interval '8 days'")
	prune := func(want int64) {
		t.Helper()
		if n, err := w.list.Prune(t.Context(), time.Now().Add(-7*24*time.Hour)); n != want || err != nil {
			t.Errorf("%d pruned, want %d: %v", n, want, err)
		}
	}
	w.p = deadletter.New(w.receiver, deadletter.Config{DB: w.db, MaxRefusals: 3})
	w.want("tried again", w.publish("b1"), "failed")
	prune(1)
	prune(0)
	w.want("the count of b1 goes on, that of a1 begins anew", w.publish("a1", "b1"), "failed ok")
	w.want("dead", w.dead(), "b1:3 c1:2")
}

func TestLettersAreSelectedBySubjectAndID(t *testing.T) {
	t.Parallel()
	w := setup(t, deadletter.Config{MaxRefusals: 1})
	w.receiver.refuse("a1", "b1", "c1")
	w.want("refused", w.publish("a1", "b1", "c1", "c2"), "ok ok ok ok")
	for f, want := range map[deadletter.Filter]int64{{}: 4, {Subject: "c"}: 2, {ID: "c2"}: 1, {Subject: "a", ID: "c2"}: 0} {
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
	w.receiver.refuse()
	if n, err := w.list.Discard(t.Context(), deadletter.Filter{ID: "c1"}); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	if sent, err := w.list.Send(t.Context(), w.receiver, deadletter.Filter{Subject: "a"}); err != nil || sent.Sent != 1 {
		t.Errorf("%+v, %v", sent, err)
	}
	w.want("held behind what was discarded", w.publish("c3"), "ok")
	w.want("dead", w.dead(), "b1:1 c2:0 c3:0")
	w.want("received", w.got(), "a1")
}

func TestALetterHasTheWholeEvent(t *testing.T) {
	t.Parallel()
	w := setup(t, deadletter.Config{MaxRefusals: 1})
	w.receiver.refuse("ü")
	whole := event.Event{
		ID: "ü", Source: "/shop?a=1", Type: "order.placed", Subject: "42", Time: time.Date(2030, 3, 1, 12, 0, 0, 123456000, time.UTC),
		GeneratedAt: time.Date(2030, 3, 1, 12, 15, 0, 0, time.UTC), Data: json.RawMessage(`{"b":1.50, "a":"\u0000", "b":2}`),
	}
	if err := w.p.Publish(t.Context(), []event.Event{whole}); err != nil {
		t.Fatal(err)
	}
	page, err := w.list.Page(t.Context(), deadletter.Filter{}, 0, 10)
	if err != nil || len(page) != 1 {
		t.Fatal(page, err)
	}
	if diff := cmp.Diff(whole, page[0].Event); diff != "" {
		t.Error(diff)
	}
	if page[0].Error != "422" || page[0].DeadAt.IsZero() {
		t.Errorf("%+v", page[0])
	}
}

// Publishers hold events of a subject back while its letters are sent again. Nothing may overtake them, and nothing may be
// held behind a letter that is gone.
func TestEventsKeepTheirOrderBesideASending(t *testing.T) {
	t.Parallel()
	for round := range 5 {
		w := setup(t, deadletter.Config{MaxRefusals: 1})
		w.receiver.refuse("a1")
		w.want("refused", w.publish("a1"), "ok")
		w.receiver.refuse()
		var wg sync.WaitGroup
		wg.Go(func() {
			for n := 2; n < 40; n++ {
				w.want("published", w.publish(fmt.Sprint("a", n)), "ok")
			}
		})
		wg.Go(func() {
			for range 5 {
				if _, err := w.list.Send(t.Context(), w.receiver, deadletter.Filter{}); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Wait()
		if _, err := w.list.Send(t.Context(), w.receiver, deadletter.Filter{}); err != nil {
			t.Error(err)
		}
		var want []string
		for n := 1; n < 40; n++ {
			want = append(want, fmt.Sprint("a", n))
		}
		if got := strings.Fields(w.got()); !slices.Equal(got, want) {
			t.Errorf("round %d: received %v", round, got)
		}
		w.want("dead", w.dead(), "")
	}
}

// The server may end the transaction of a sending because of another one, if the default of the role
// is serializable. The sending then repeats it.
func TestALetterThatIsSentAgainByARepeatedTransactionCountsOnce(t *testing.T) {
	pgtest.NotOnCitus(t, "it has no triggers on the tables of the schema")
	t.Parallel()
	db := pgtest.New(t)
	r := &receiver{}
	w := &world{t: t, db: db, receiver: r, list: deadletter.NewList(db, ""), p: deadletter.New(r, deadletter.Config{DB: db, MaxRefusals: 1})}
	r.refuse("a1")
	w.want("refused", w.publish("a1", "a2"), "ok ok")
	db.MustExec(`create sequence tries;
		create function conflict_once() returns trigger language plpgsql as $$
		begin
			if nextval('public.tries') = 1 then
				raise serialization_failure;
			end if;
			return new;
		end $$;
		create trigger conflict_once before update on prescient.event_dead for each row execute function conflict_once()`)

	calls := 0
	p := event.Wrap(r, func(ctx context.Context, _ []event.Event, publish func(context.Context) error) error {
		if calls++; calls == 1 { // a letter that only the second try finds
			err := pgsql.InTx(ctx, db, func(tx *sqlx.Tx) error {
				_, err := tx.ExecContext(ctx, `insert into prescient.event_dead (id, source, type, subject, dead_at)
					select 'b1', 'test', 'happened', 'b', now() from prescient.event_dead where id = 'a1' and refusals = 1`)
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
		return publish(ctx)
	})
	sent, err := w.list.Send(t.Context(), p, deadletter.Filter{})
	if diff := cmp.Diff(deadletter.Sent{Sent: 1, Refused: 1, Held: 1}, sent); diff != "" || err != nil || calls != 2 {
		t.Errorf("%s, %v, %d calls", diff, err, calls)
	}
	w.want("dead", w.dead(), "a1:2 a2:0")
}

func TestAnErrorThatTheDatabaseCannotStoreIsCutAndCleaned(t *testing.T) {
	t.Parallel()
	w := setup(t, deadletter.Config{})
	text := "bad \x00\xff" + strings.Repeat("ü", 2000)
	p := event.Wrap(w.receiver, func(context.Context, []event.Event, func(context.Context) error) error {
		return event.Partial([]error{errors.New(text)})
	})
	if err := deadletter.New(p, deadletter.Config{DB: w.db, MaxRefusals: 1}).Publish(t.Context(), of("a1")); err != nil {
		t.Fatal(err)
	}
	if sent, err := w.list.Send(t.Context(), p, deadletter.Filter{}); err != nil || sent.Refused != 1 {
		t.Errorf("%+v, %v", sent, err)
	}
	page, err := w.list.Page(t.Context(), deadletter.Filter{}, 0, 1)
	if err != nil || len(page) != 1 || !strings.HasPrefix(page[0].Error, "bad \uFFFDüü") || len(page[0].Error) < 1990 {
		t.Errorf("%v, %v", page, err)
	}
}
