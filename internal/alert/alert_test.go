package alert_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/alert"
	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/message"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/forward"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

type world struct {
	t   *testing.T
	db  *sqlx.DB
	cfg alert.Config
}

func setup(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, db: pgtest.New(t)}
	w.cfg = alert.Config{
		DB: w.db, Receiver: "ops", Repeat: 4 * time.Hour, Self: "acme", Knows: func(string) bool { return true },
		Logger: slog.New(slog.DiscardHandler),
	}
	return w
}

// deadLetter makes status find a dead letter.
func (w *world) deadLetter() {
	w.t.Helper()
	w.db.MustExec(`insert into prescient.event_dead (consumer, id, source, type, dead_at) values ('desk', '1', 's', 't', now())`)
}

// mend ends that.
func (w *world) mend() { w.db.MustExec("delete from prescient.event_dead") }

// told looks for findings, and returns the first words of the messages since the last call.
func (w *world) told() string {
	w.t.Helper()
	if err := alert.Tell(w.t.Context(), w.cfg); err != nil {
		w.t.Fatal(err)
	}
	return w.messages()
}

func (w *world) messages() string {
	w.t.Helper()
	var list []string
	var events []struct {
		Type, Subject string
		Data          []byte
	}
	if err := w.db.Select(&events, `delete from prescient.event_outbox returning type, subject, data`); err != nil {
		w.t.Fatal(err)
	}
	for _, e := range events {
		var m message.Message
		if err := json.Unmarshal(e.Data, &m); err != nil || e.Type != message.Type("ops") || m.About == "" {
			w.t.Fatalf("%s %s: %v", e.Type, e.Data, err)
		}
		over := ""
		if m.Over {
			over = " over"
		}
		if m.Quiet {
			over += " quietly"
		}
		words := strings.Fields(strings.ReplaceAll(m.Text, "\n", " | "))
		subject := e.Subject[:strings.LastIndex(e.Subject, "/")] // without the instant at which it has appeared
		list = append(list, subject+": "+strings.Join(words[:min(len(words), 3)], " ")+over)
	}
	return strings.Join(list, "; ")
}

func (w *world) want(what, got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

const dead = "finding/dead-letters: "

func TestAFindingIsToldOnceThenAgainAndWhenItIsOver(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.want("all is well", w.told(), "")
	w.deadLetter()
	w.want("it appears", w.told(), dead+"dead-letters: 1 event")
	w.want("it stays", w.told(), "")
	w.db.MustExec("update prescient.alert set told_at = (told_at at time zone 'UTC' - interval '3 hours 59 minutes') at time zone 'UTC', since = (since at time zone 'UTC' - interval '4 hours') at time zone 'UTC'")
	w.want("it stays for less than alerts.repeat", w.told(), "")
	w.db.MustExec("update prescient.alert set told_at = (told_at at time zone 'UTC' - interval '1 minute') at time zone 'UTC'")
	w.want("it stays for long", w.told(), dead+"still: dead-letters, since")
	w.want("it stays", w.told(), "")
	w.mend()
	w.want("it is over", w.told(), dead+"over: dead-letters, told over")
	w.want("all is well", w.told(), "")
	w.deadLetter()
	w.want("it appears again", w.told(), dead+"dead-letters: 1 event")
}

func TestFindingsAreToldOnceTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.cfg.Every = 5 * time.Second
	w.want("all is well", w.told(), "")
	w.db.MustExec("update prescient.alert_look set looked_at = (looked_at at time zone 'UTC' + interval '1 day') at time zone 'UTC'")
	w.deadLetter()
	w.want("it appears", w.told(), dead+"dead-letters: 1 event")
	w.db.MustExec("update prescient.alert_look set looked_at = (looked_at at time zone 'UTC' + interval '1 day') at time zone 'UTC'")
	w.db.MustExec("update prescient.alert set told_at = (told_at at time zone 'UTC' + interval '1 day') at time zone 'UTC'")
	w.want("it was told by the clock of before", w.told(), dead+"still: dead-letters, since")
}

func TestManyProcessesTellAFindingOnce(t *testing.T) {
	t.Parallel()
	for name, every := range map[string]time.Duration{"one look in an hour": time.Hour, "each looks": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.cfg.Every = every
			w.deadLetter()
			var looking sync.WaitGroup
			for range 8 {
				looking.Go(func() {
					if err := alert.Tell(t.Context(), w.cfg); err != nil {
						t.Error(err)
					}
				})
			}
			looking.Wait()
			w.want("told", w.messages(), dead+"dead-letters: 1 event")
		})
	}
}

// Two processes whose looks take longer than the time between them would give way to each other for ever.
func TestALookGivesWayToNoneThatHasToldNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.deadLetter()
	tx := w.db.MustBegin()
	defer func() { _ = tx.Rollback() }()
	tx.MustExec("lock table prescient.event_dead")
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- alert.Tell(t.Context(), w.cfg) }()
	pgtest.AwaitWaits(t, w.db, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { second <- alert.Tell(ctx, w.cfg) }()
	pgtest.AwaitWaits(t, w.db, 2)
	cancel()
	if err := <-second; err == nil {
		t.Error("the second look has ended")
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	w.want("told", w.messages(), dead+"dead-letters: 1 event")
}

func (w *world) silence(span time.Duration) {
	w.t.Helper()
	err := pgsql.InTx(w.t.Context(), w.db, func(tx *sqlx.Tx) error {
		return alert.Silence(w.t.Context(), tx, "", "dead-letters", span, "the desk moves")
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestASilencedFindingIsNotTold(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.silence(time.Hour)
	w.deadLetter()
	w.want("silenced", w.told(), "")
	list, err := alert.List(t.Context(), w.db, "")
	if err != nil || len(list) != 1 || list[0].Because != "the desk moves" || list[0].By == "" || list[0].SilencedUntil.IsZero() || list[0].Since.IsZero() {
		t.Errorf("%+v, %v", list, err)
	}
	w.mend()
	w.want("over while silenced", w.told(), "")
	w.deadLetter()
	w.want("again", w.told(), "")
	w.db.MustExec("update prescient.alert set silenced_until = now()")
	w.want("the silence has ended", w.told(), dead+"dead-letters: 1 event")
	w.silence(time.Hour)
	w.mend()
	w.want("over while silenced, which a service that keeps an incident has to know", w.told(), dead+"over: dead-letters, told over quietly")
	w.silence(0)
	w.want("nothing is left", w.told(), "")
	list, err = alert.List(t.Context(), w.db, "")
	if diff := cmp.Diff(0, len(list)); diff != "" || err != nil {
		t.Errorf("%+v, %v", list, err)
	}
}

// giveUp puts rows of a job into history as given up.
func (w *world) giveUp(job string) {
	w.t.Helper()
	w.db.MustExec(`insert into prescient.future_job_history (id, job_exec, entity_name, entity_key, item_key, first_check_at, slot,
			check_count, error_count, spent, enqueued_at, enqueued_by, outcome, last_error)
		values (1, $1, 'order', '1', '', now(), now(), 1, 1, '0', now(), 'shop', 'failed', 'boom')`, job)
}

// passDay makes the rows that gave up, and the findings, a day older. Dead letters go on to be about their finding.
func (w *world) passDay() {
	w.t.Helper()
	w.db.MustExec("update prescient.future_job_history set finished_at = (finished_at at time zone 'UTC' - interval '25 hours') at time zone 'UTC'")
	w.db.MustExec("update prescient.alert set since = (since at time zone 'UTC' - interval '25 hours') at time zone 'UTC'")
	w.db.MustExec("update prescient.event_dead d set subject = " + subjectSQL +
		" from prescient.alert a where d.subject like 'finding/' || a.finding || '/%'")
}

// subjectSQL is the subject of the messages about the finding of row a of table alert.
const subjectSQL = `'finding/' || a.finding || '/'
	|| rtrim(rtrim(to_char(a.since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), '0'), '.') || 'Z'`

// refusing is a receiver that refuses the messages about a finding while it is full.
type refusing struct {
	full bool
	got  []string
}

func (r *refusing) Publish(_ context.Context, events []event.Event) error {
	errs := make([]error, len(events))
	for i, e := range events {
		var m message.Message
		if err := json.Unmarshal(e.Data, &m); err != nil || r.full {
			errs[i] = errors.Join(event.ErrRefused, err)
			continue
		}
		if first, _, _ := strings.Cut(m.Text, ","); strings.Contains(first, "gave-up/") {
			first, _, _ = strings.Cut(first, " of ")
			r.got = append(r.got, first)
		}
	}
	return event.Partial(errs)
}

func (r *refusing) Close() error { return nil }

// refuses returns a receiver that refuses all messages, each once, and a function that looks and returns what it has
// got.
func (w *world) refuses() (desk *refusing, look func() string) {
	t := w.t
	t.Helper()
	desk = &refusing{full: true}
	cfg := forward.Config{DB: w.db, MaxRefusals: 1, Logger: w.cfg.Logger, Destinations: []forward.Destination{
		{Name: message.Consumer("ops"), Address: "test:", Types: []string{message.Type("ops")}, Publisher: desk},
	}}
	if err := forward.Name(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return desk, func() string {
		t.Helper()
		if err := alert.Tell(t.Context(), w.cfg); err != nil {
			t.Fatal(err)
		}
		await.True(t, "the events to be read", func() bool {
			f, err := forward.Start(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if sent := f.Finish()[0]; sent.Err != nil {
				t.Fatal(sent.Err)
			}
			var left int
			if err := w.db.Get(&left, `select count(*) from prescient.event_consumer c
				join prescient.event_outbox o on (o.mark, o.position) > (c.mark, c.position)`); err != nil {
				t.Fatal(err)
			}
			return left == 0
		})
		got := strings.Join(desk.got, "; ")
		desk.got = nil
		return got
	}
}

// A finding that comes again must not wait for an operator who does not know of it.
func TestADeadLetterHoldsBackOnlyTheMessagesOfItsOccurrence(t *testing.T) {
	t.Parallel()
	w := setup(t)
	desk, look := w.refuses()
	w.giveUp("card")
	w.want("the receiver is full", look(), "")
	desk.full = false
	w.db.MustExec("update prescient.alert set told_at = (told_at at time zone 'UTC' - interval '1 day') at time zone 'UTC'")
	w.want("the message that it stays waits behind", look(), "")
	w.db.MustExec("delete from prescient.future_job_history")
	w.want("so does its end", look(), "")
	w.giveUp("card")
	w.want("it appears again", look(), "gave-up/card: 1 row")
	w.db.MustExec("delete from prescient.future_job_history")
	w.want("it is over", look(), "over: gave-up/card")
}

func TestADeadLetterHoldsBackNoMessageAboutRowsThatGiveUpLater(t *testing.T) {
	t.Parallel()
	w := setup(t)
	desk, look := w.refuses()
	w.giveUp("card")
	w.want("the receiver is full", look(), "")
	w.passDay()
	desk.full = false
	w.want("a day later", look(), "")
	w.giveUp("card")
	w.want("it gives up again", look(), "gave-up/card: 1 row")
	w.passDay()
	w.want("another day later", look(), "")
	desk.full = true
	w.giveUp("card")
	w.want("it gives up again, and the receiver is full", look(), "")
	list, err := alert.Told(t.Context(), w.db, "", "ops")
	if err != nil || slices.ContainsFunc(list, func(k alert.Known) bool { return k.Finding == "gave-up/card" }) {
		t.Errorf("told %+v, %v", list, err)
	}
	desk.full = false
	w.db.MustExec("delete from prescient.event_dead d using prescient.alert a where d.subject = " + subjectSQL)
	w.db.MustExec("delete from prescient.future_job_history")
	w.want("the end waits for the message that is refused", look(), "")
}

func TestAFindingIsToldOnceTheReceiverRefusesNoMessageAboutIt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	want := func(what string, want ...string) {
		t.Helper()
		list, err := alert.Told(t.Context(), w.db, "", "ops")
		var got []string
		for _, k := range list {
			got = append(got, k.Finding)
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %s, %v", what, diff, err)
		}
	}
	w.db.MustExec(`insert into prescient.event_consumer (name, mark, position, address) values ('receiver:ops', '0', 0, 'test:')`)
	w.silence(time.Hour)
	w.deadLetter()
	w.giveUp("card")
	w.giveUp("mail")
	if err := alert.Tell(t.Context(), w.cfg); err != nil {
		t.Fatal(err)
	}
	want("one is silenced", "gave-up/card", "gave-up/mail")
	w.db.MustExec(`insert into prescient.event_dead (consumer, id, source, type, subject, refusals, try_at)
		select 'receiver:ops', id, source, type, subject, 1, now() from prescient.event_outbox where subject like 'finding/gave-up/card/%'`)
	want("the message about one is refused", "gave-up/mail")
	w.db.MustExec("update prescient.event_dead set dead_at = now(), try_at = null")
	want("it is a dead letter", "gave-up/mail")
	w.db.MustExec("update prescient.event_consumer set failing_since = now()")
	want("the receiver is down")
}

func TestEachJobThatGivesUpIsTold(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.giveUp("card")
	w.want("a job gives up", w.told(), "finding/gave-up/card: gave-up/card: 1 row")
	w.giveUp("mail")
	w.want("another one gives up", w.told(), "finding/gave-up/mail: gave-up/mail: 1 row")
}

// Status finds rows that gave up for a day. Their finding is not over before they are retried or acknowledged.
func TestRowsThatGaveUpAreOverOnceTheyAreRetriedOrAcknowledged(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]string{
		"retried": "delete from prescient.future_job_history", "acknowledged": "update prescient.future_job_history set ack = '{}'",
		"the rule was removed": "insert into prescient.job (job, name) values (1, 'card')",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.giveUp("card")
			w.want("a job gives up", w.told(), "finding/gave-up/card: gave-up/card: 1 row")
			w.passDay()
			w.want("a day later", w.told(), "")
			w.db.MustExec("update prescient.alert set told_at = (told_at at time zone 'UTC' - interval '25 hours') at time zone 'UTC'")
			w.want("it stays for long", w.told(), "finding/gave-up/card: still: gave-up/card, since")
			var text string
			if err := w.db.Get(&text, "select text from prescient.alert"); err != nil || strings.Contains(text, "last day") ||
				!strings.HasSuffix(text, "\nsee to it with: acme jobs history --outcome failed --job card") {
				t.Errorf("%q, %v", text, err)
			}
			w.db.MustExec(end)
			w.want("it is over", w.told(), "finding/gave-up/card: over: gave-up/card, told over")
		})
	}
}

// A silence may commit after a look has read what is silenced.
func TestRowsThatGiveUpAfterOlderOnesAreToldAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	quiets := func(what string, want int) {
		t.Helper()
		if list, err := alert.Told(t.Context(), w.db, "", "ops"); err != nil || len(list) != want {
			t.Errorf("%s: %+v, %v, want %d findings", what, list, err, want)
		}
	}
	since := func() (since string) {
		t.Helper()
		if err := w.db.Get(&since, "select since from prescient.alert"); err != nil {
			t.Fatal(err)
		}
		return since
	}
	w.giveUp("card")
	w.want("a job gives up", w.told(), "finding/gave-up/card: gave-up/card: 1 row")
	quiets("it was told", 1)
	w.passDay()
	w.want("a day later", w.told(), "")
	quiets("only older rows are left", 0)
	before := since()
	w.giveUp("card")
	if err := alert.Tell(t.Context(), w.cfg); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := w.db.Get(&n, "select count(*) from prescient.event_outbox o, prescient.alert a where o.subject = "+subjectSQL); err != nil || n != 1 {
		t.Errorf("%d messages have the subject of the first one, so that they stay in order, %v", n, err)
	}
	w.want("it gives up again", w.messages(), "finding/gave-up/card: gave-up/card: 1 row")
	w.want("it is the same incident", since(), before)
	quiets("it was told again", 1)
	w.want("it stays", w.told(), "")

	w.passDay()
	w.want("another day later", w.told(), "")
	w.db.MustExec("update prescient.alert set silenced_until = now() + interval '1 hour'")
	w.giveUp("card")
	w.want("it gives up while it is silenced", w.told(), "")
	w.db.MustExec("update prescient.alert set silenced_until = now()")
	w.want("the silence ends", w.told(), "finding/gave-up/card: gave-up/card: 1 row")

	w.passDay()
	w.want("the last day passes", w.told(), "")
	w.db.MustExec("delete from prescient.future_job_history")
	w.want("it is over", w.told(), "finding/gave-up/card: over: gave-up/card, told over")
}

func TestRowsThatGiveUpWhileTheirFindingIsSilencedForLongAreToldAfterwards(t *testing.T) {
	t.Parallel()
	w := setup(t)
	tx := w.db.MustBegin()
	defer func() { _ = tx.Rollback() }()
	if err := alert.Silence(t.Context(), tx, "", "gave-up/card", 48*time.Hour, "the bank moves"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	w.want("nothing has happened", w.told(), "")
	w.giveUp("card")
	w.want("it gives up", w.told(), "")
	w.passDay()
	w.want("a day later", w.told(), "")
	w.db.MustExec("update prescient.alert set silenced_until = now()")
	w.want("the silence ends", w.told(), "finding/gave-up/card: gave-up/card: rows of")
	w.want("it was told", w.told(), "")
	w.db.MustExec("delete from prescient.future_job_history")
	w.want("it is over", w.told(), "finding/gave-up/card: over: gave-up/card, told over")
}

func TestASilenceThatCommitsDuringALookStays(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.deadLetter()
	w.want("it appears", w.told(), dead+"dead-letters: 1 event")
	w.mend()
	tx := w.db.MustBegin()
	defer func() { _ = tx.Rollback() }()
	if err := alert.Silence(t.Context(), tx, "", "dead-letters", time.Hour, "the desk moves"); err != nil {
		t.Fatal(err)
	}
	looked := make(chan error, 1)
	go func() { looked <- alert.Tell(t.Context(), w.cfg) }()
	pgtest.AwaitWaits(t, w.db, 1)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-looked; err != nil {
		t.Fatal(err)
	}
	w.want("it is over, and was not silenced then", w.messages(), dead+"over: dead-letters, told over")
	list, err := alert.List(t.Context(), w.db, "")
	if err != nil || len(list) != 1 || list[0].Because != "the desk moves" {
		t.Errorf("%+v, %v", list, err)
	}
	w.told()
	w.deadLetter()
	w.want("it appears again while it is silenced", w.told(), "")
}
