package sqljob_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/sqljob"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestAnOrderThatIsNotShippedIsAnEventAndTheOthersAreDone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(`insert into orders values (1, 'ada', null, null), (2, 'bob', now(), null), (3, 'eve', null, $1)`, slot(3).Add(-time.Minute))
	w.due(slot(1), "1", "2", "3", "4")
	w.run(slot(1), w.config(unshipped))

	diff(t, map[string]string{"1": "done", "2": "done", "3": "12:45:00", "4": "done"}, w.state())
	want := []event.Event{
		{Source: "shop", Type: "unshipped", Subject: "1", Time: slot(1), PublishedAt: slot(1), Data: raw(`{"customer": "ada"}`)},
		{Source: "shop", Type: "unshipped", Subject: "3", Time: slot(1), PublishedAt: slot(1), Data: raw(`{"customer": "eve"}`)},
	}
	got := w.published()
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(event.Event{}, "ID")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if len(got) == 2 && (len(got[0].ID) != 32 || got[0].ID == got[1].ID) {
		t.Errorf("ids %q and %q", got[0].ID, got[1].ID)
	}
}

func TestTheNextLookIsAnotherEvent(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(`insert into orders values (1, 'ada', null, $1)`, slot(2))
	w.due(slot(1), "1")
	cfg := w.config(unshipped, func(c *sqljob.Config) { c.Type = "com.example.unshipped" })
	w.run(slot(1), cfg)
	w.exec(`update orders set look_again = null`)
	w.run(slot(2), cfg)
	diff(t, map[string]string{"1": "done"}, w.state())
	got := w.published()
	if len(got) != 2 || got[0].ID == got[1].ID || got[0].Type != "com.example.unshipped" {
		t.Errorf("%+v, want two events", got)
	}
}

func TestAKeyWithoutAnEventIsOnlyLookedAtAgain(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.due(slot(1), "1", "2")
	w.run(slot(1), w.config(`select k as entity_key, null::json as event,
		case k when '1' then timestamptz '2030-03-01 13:00+00' end as next from unnest($1::text[]) k`))
	diff(t, map[string]string{"1": "13:00:00", "2": "done"}, w.state())
	diff(t, 0, len(w.published()))
}

func TestAQueryGetsNoMoreKeysThanItsBatchSize(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.due(slot(1), "1", "2", "3", "4", "5")
	w.run(slot(1), w.config(`select k as entity_key, json_build_object('keys', cardinality($1::text[])) as event from unnest($1::text[]) k`,
		func(c *sqljob.Config) { c.BatchSize = 2 }))
	got := map[string]int{}
	for _, e := range w.published() {
		got[string(e.Data)]++
	}
	diff(t, map[string]int{`{"keys" : 2}`: 4, `{"keys" : 1}`: 1}, got)
}

func TestRowsOfOneEntityShareTheAnswerAndHaveEventsOfTheirOwn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(`insert into orders values (1, 'ada', null, null)`)
	w.due(slot(1), "1")
	w.enqueue(jobs.Request{EntityKey: "1", ItemKey: "b"}, slot(1))
	w.enqueue(jobs.Request{EntityKey: "1", Anonymous: true}, slot(1))
	w.enqueue(jobs.Request{EntityKey: "1", Anonymous: true}, slot(1))
	w.run(slot(1), w.config(unshipped))
	ids := map[string]bool{}
	for _, e := range w.published() {
		ids[e.ID+" of "+e.Subject] = true
	}
	if len(ids) != 4 {
		t.Errorf("events %v, want 4 of subject 1", slices.Collect(maps.Keys(ids)))
	}
}

func TestTheEventOfARowThatIsRepeatedHasTheSameID(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(`insert into orders values (1, 'ada', null, null)`)
	w.due(slot(1), "1")
	var seen []string
	w.publisher.Refuse = func(e event.Event) error {
		seen = append(seen, e.ID)
		return errors.New("the reply was lost")
	}
	w.run(slot(1), w.config(unshipped))
	diff(t, map[string]string{"1": "12:30:00 publish the events: the reply was lost"}, w.state())
	w.publisher.Refuse = nil
	w.run(slot(2), w.config(unshipped))
	diff(t, map[string]string{"1": "done"}, w.state())
	diff(t, seen, []string{w.published()[0].ID})
}

// A key can be checked early, and be enqueued again for the slot that it had at first.
func TestTheEventOfAKeyThatIsEnqueuedAgainHasAnIDOfItsOwn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(`insert into orders values (1, 'ada', null, null)`)
	w.due(slot(3), "1")
	key := jobs.Key{JobExec: "unshipped", EntityName: "order", EntityKey: "1"}
	if _, found, err := w.client.Reschedule(t.Context(), jobs.OwnTx(w.db), key, slot(1)); err != nil || !found {
		t.Fatal(found, err)
	}
	w.run(slot(1), w.config(unshipped))
	w.due(slot(3), "1")
	w.run(slot(3), w.config(unshipped))
	ids := map[string]bool{}
	for _, e := range w.published() {
		ids[e.ID] = true
	}
	if len(ids) != 2 {
		t.Errorf("events %v, want one for each row", slices.Collect(maps.Keys(ids)))
	}
}

func TestARowThatCannotBeAnEventFailsAlone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.due(slot(1), "1", "a\nb", "2", " ")
	box := outbox.New(w.db, "")
	const all = `select k as entity_key, '{}'::json as event from unnest($1::text[]) k`
	w.run(slot(1), w.config(all, func(c *sqljob.Config) { c.Publisher = box }))

	const wrong = "12:30:00 publish the event, whose subject is the entity_key: subject: must "
	diff(t, map[string]string{
		"1": "done", "2": "done",
		"a\nb": wrong + "not contain a control character (such as NUL or a line break) or a noncharacter",
		" ":    wrong + "not be empty or blank",
	}, w.state())
	var subjects []string
	if err := w.db.SelectContext(t.Context(), &subjects, `select subject from prescient.event_outbox order by 1`); err != nil {
		t.Fatal(err)
	}
	diff(t, []string{"1", "2"}, subjects)
}

func TestEventsAreWrittenInTheTransactionOfTheOutcome(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(`create table published (id text primary key, subject text not null check (subject <> '3'))`)
	w.exec(`insert into orders select n, 'ada', null, null from generate_series(1, 3) n`)
	cfg := w.config(unshipped, func(c *sqljob.Config) { c.Publisher = &table{} })
	w.due(slot(1), "1", "2")
	w.run(slot(1), cfg)
	diff(t, map[string]string{"1": "done", "2": "done"}, w.state())

	// One that the table refuses takes the whole batch back, to be tried again.
	w.due(slot(2), "3")
	w.run(slot(2), cfg)
	if got := w.state()["3"]; !strings.HasPrefix(got, "12:45:00 publish the events: pq: new row") {
		t.Errorf("row 3: %s", got)
	}
	var subjects []string
	if err := w.db.SelectContext(t.Context(), &subjects, `select subject from published order by 1`); err != nil {
		t.Fatal(err)
	}
	diff(t, []string{"1", "2"}, subjects)
}

func TestWhatAQueryMayNotDoIsAnErrorOfItsRows(t *testing.T) {
	t.Parallel()
	const one = `select k as entity_key, '{}'::jsonb as event from unnest($1::text[]) k`
	tests := map[string]struct {
		query  string
		change func(*sqljob.Config)
		want   string
	}{
		"a typo":            {query: "select id::text as entity_key,\n 1 as event form orders where id = any ($1)", want: "query of job \"unshipped\": pq: syntax error at or near \"form\" at position 2:13"},
		"a missing table":   {query: `select k as entity_key, '{}'::json as event from bills where k = any ($1::text[])`, want: `relation "bills" does not exist`},
		"it writes":         {query: `with gone as (delete from orders returning id) select id::text as entity_key, '{}'::json as event from gone where id::text = any ($1::text[])`, want: "data-modifying statements"},
		"it takes too long": {query: one + ", pg_sleep(60)", change: func(c *sqljob.Config) { c.Timeout = time.Second }, want: "statement timeout"},
		"no entity_key":     {query: `select k as key, '{}'::json as event from unnest($1::text[]) k`, want: `column "key" is not known: want entity_key, event and next`},
		"an unknown column": {query: `select k as entity_key, '{}'::json as event, 1 as prio from unnest($1::text[]) k`, want: `column "prio" is not known`},
		"a column twice":    {query: `select k as entity_key, '{}'::json as event, '{}'::json as event from unnest($1::text[]) k`, want: `column "event" is there twice`},
		"keys alone":        {query: `select k as entity_key from unnest($1::text[]) k`, want: "event and next are missing"},
		"event is a text":   {query: `select k as entity_key, k as event from unnest($1::text[]) k`, want: "column event is of type text: want json or jsonb"},
		"next has no zone":  {query: `select k as entity_key, timestamp '2030-01-01' as next from unnest($1::text[]) k`, want: "column next is of type timestamp: want timestamptz"},
		"next is infinite":  {query: `select k as entity_key, timestamptz 'infinity' as next from unnest($1::text[]) k`, want: `the query returned next infinity for entity_key "1": want a finite instant`},
		"a key is null":     {query: `select nullif(k, '1') as entity_key, '{}'::json as event from unnest($1::text[]) k`, want: "a row whose entity_key is null"},
		"a key of others":   {query: `select '7' as entity_key, '{}'::json as event where $1::text[] is not null`, want: `it returned entity_key "7", which is not in $1`},
		"a key twice":       {query: `select k as entity_key, '{}'::json as event from unnest($1::text[] || $1::text[]) k`, want: `the query returned entity_key "1" more than once`},
		"a missing role":    {query: one, change: func(c *sqljob.Config) { c.Role = "nobody there" }, want: `limit the transaction: pq: role "nobody there" does not exist`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.due(slot(1), "1")
			cfg := w.config(test.query)
			if test.change != nil {
				test.change(&cfg)
			}
			w.run(slot(1), cfg)
			if got := w.state()["1"]; !strings.HasPrefix(got, "12:30:00 ") || !strings.Contains(got, test.want) {
				t.Errorf("%s\nwant an error with %s", got, test.want)
			}
			diff(t, 0, len(w.published()))
		})
	}
}

func TestAKeyReturnedTwiceIsTheErrorOfItsRowsAlone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.due(slot(1), "1", "2")
	w.run(slot(1), w.config(`select k as entity_key, '{}'::json as event from unnest($1::text[] || '{1}'::text[]) k where k = any ($1)`))
	diff(t, map[string]string{"1": `12:30:00 the query returned entity_key "1" more than once`, "2": "done"}, w.state())
}

func TestAQueryRunsOnceForAPage(t *testing.T) {
	t.Parallel()
	w := setup(t)
	keys := make([]string, 300)
	for i := range keys {
		keys[i] = strings.Repeat("k", i+1)
	}
	w.due(slot(1), keys...)
	w.exec(`update prescient.future_job set group_key = 'g'`)
	// The event tells how many keys the query was given.
	w.run(slot(1), w.config(`select k as entity_key, to_json(cardinality($1::text[])) as event from unnest($1::text[]) k`))
	for _, e := range w.published() {
		diff(t, raw("300"), e.Data)
	}
	diff(t, 300, len(w.published()))
}

func TestTheQueryRunsUnderItsRole(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "functions with the rights of their owner cannot work there, see docs/citus.md")
	w := setup(t)
	const role = "prescient sqljob reader"
	w.exec(`create role "` + role + `"`)
	w.exec(`create schema shop`)
	w.exec(`grant usage on schema shop to "` + role + `"`)
	w.exec(`alter table orders set schema shop`)
	t.Cleanup(func() {
		if _, err := w.db.Exec(`drop owned by "` + role + `"; drop role "` + role + `"`); err != nil {
			t.Error(err)
		}
	})
	w.exec(`insert into shop.orders values (1, 'ada', null, null)`)
	w.due(slot(1), "1")
	cfg := w.config(strings.ReplaceAll(unshipped, "orders", "shop.orders"), func(c *sqljob.Config) { c.Role = role })
	w.run(slot(1), cfg)
	if got := w.state()["1"]; !strings.Contains(got, "permission denied for table orders") {
		t.Errorf("without a grant: %s", got)
	}
	w.exec(`grant select on shop.orders to "` + role + `"`)
	w.run(slot(2), cfg)
	diff(t, map[string]string{"1": "done"}, w.state())
	var user string
	if err := w.pool.GetContext(t.Context(), &user, `select current_user`); err != nil || user == role {
		t.Errorf("the connection keeps the role: %s, %v", user, err)
	}
}

func TestATimeoutBeyondWhatTheServerKnowsIsItsLongest(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{25 * 24 * time.Hour, math.MaxInt64} {
		w := setup(t)
		w.due(slot(1), "4")
		w.run(slot(1), w.config(unshipped, func(c *sqljob.Config) { c.Timeout = timeout }))
		diff(t, map[string]string{"4": "done"}, w.state())
	}
}

func TestTheOptionsOfTheJobHold(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.due(slot(1), "1")
	w.run(slot(1), w.config("nonsense"), jobs.Retry(0))
	diff(t, map[string]string{"1": "failed"}, w.state())
}

func TestADatabaseThatCannotBeReachedIsAnErrorUntilItCan(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(`insert into orders values (1, 'ada', null, null)`)
	w.due(slot(1), "1")
	cfg := w.config(unshipped, func(c *sqljob.Config) {
		c.DB = func(context.Context) (pgsql.Pool, error) { return nil, errors.New("no route to host") }
	})
	w.run(slot(1), cfg)
	diff(t, map[string]string{"1": `12:30:00 query of job "unshipped": no route to host`}, w.state())
	w.run(slot(2), w.config(unshipped))
	diff(t, map[string]string{"1": "done"}, w.state())
}

func TestABindingThatLacksSomethingIsRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for name, change := range map[string]func(*sqljob.Config){
		"query":     func(c *sqljob.Config) { c.Query = "" },
		"database":  func(c *sqljob.Config) { c.DB = nil },
		"publisher": func(c *sqljob.Config) { c.Publisher = nil },
		"timeout":   func(c *sqljob.Config) { c.Timeout = -1 },
	} {
		err := sqljob.Register(jobs.NewRegistry(), w.config(unshipped, change))
		if err == nil || !strings.Contains(err.Error(), `bind job "unshipped" to a query: `) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// A query that reads for long is best kept from the primary.
func TestAQueryRunsOnAHotStandby(t *testing.T) {
	t.Parallel()
	w := setup(t)
	server := pgtest.Private(t, nil)
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	pgtest.StandBy(t, server)
	standby, err := pgsql.Open(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = standby.Close() })
	cfg := w.config(`select k as entity_key, 'true'::json as event from unnest($1::text[]) k where pg_is_in_recovery()`,
		func(c *sqljob.Config) { c.DB = func(context.Context) (pgsql.Pool, error) { return standby, nil } })
	if err := sqljob.Check(t.Context(), cfg); err != nil {
		t.Error(err)
	}
	w.due(slot(1), "1")
	if result := w.run(slot(1), cfg); result.Finished != 1 || len(w.publisher.Events()) != 1 {
		t.Errorf("%+v, %v", result, w.publisher.Events())
	}
}

// A page of events is held several times while it is published.
func TestALargeAnswerIsAskedForInParts(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var keys []string
	for i := range 40 {
		keys = append(keys, strconv.Itoa(i))
	}
	w.due(slot(1), keys...)
	w.run(slot(1), w.config(`select k as entity_key, to_jsonb(repeat('x', case k when '7' then 17 else 1 end << 20)) as event from unnest($1::text[]) as k`))
	state := w.state()
	if why := state["7"]; !strings.Contains(why, `query of job "unshipped": the event for entity_key "7" has more than 16 MiB. Select what its consumers need`) {
		t.Errorf("the large one: %s", why)
	}
	delete(state, "7")
	for key, was := range state {
		if was != "done" {
			t.Errorf("%s: %s", key, was)
		}
	}
	if n := len(w.published()); n != 39 || w.publisher.Most() > 16<<20 {
		t.Errorf("%d events were published, up to %d bytes of them at once", n, w.publisher.Most())
	}
}

// The driver reads a row whole. Not parallel, since it measures the memory of the process.
func TestAnEnormousAnswerIsRefusedUnread(t *testing.T) {
	w := setup(t)
	w.due(slot(1), "1", "2")
	cfg := w.config(`select k as entity_key, to_jsonb(repeat('x', case k when '1' then 100 << 20 else 1 end)) as event, null::timestamptz as next
		from unnest($1::text[]) as k -- and a comment;`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w.run(slot(1), cfg)
	runtime.ReadMemStats(&after)
	if state := w.state(); !strings.Contains(state["1"], `the event for entity_key "1" has more than 16 MiB`) || state["2"] != "done" {
		t.Errorf("%.300v", state)
	}
	if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 50 {
		t.Errorf("the run took %d MiB", mib)
	}
}

// Row security would hide open orders from the query without an error, and they would end as done.
func TestAPolicyThatWouldHideRowsIsAnError(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const reader = "prescient_sqljob_hidden"
	w.exec(`create role ` + reader)
	t.Cleanup(func() { // roles belong to the server, not to the test's database
		if _, err := w.db.Exec(`drop owned by ` + reader + `; drop role ` + reader); err != nil {
			t.Error(err)
		}
	})
	w.exec(`grant select on orders to ` + reader)
	w.exec(`alter table orders enable row level security`)
	w.exec(`insert into orders values (1, 'ada', null, null)`)
	w.due(slot(1), "1")
	cfg := w.config(unshipped, func(c *sqljob.Config) { c.Role = reader })
	w.run(slot(1), cfg)
	const want = `query would be affected by row-level security policy for table "orders"`
	if got := w.state()["1"]; !strings.HasPrefix(got, "12:30:00 ") || !strings.Contains(got, want) || !strings.Contains(got, "bypassrls") {
		t.Errorf("%s\nwant an error with %s", got, want)
	}
	if err := sqljob.Check(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the check of the query: %v", err)
	}
}

// Callers may enqueue any key, and must not end the alerts of others.
func TestAKeyThatTheQueryCannotReadFailsAlone(t *testing.T) {
	t.Parallel()
	const bad = "zwölf"
	for name, query := range map[string]string{
		"a cast":             unshipped,
		"a division by zero": `select k as entity_key, to_json(1 / (length(k) - length('` + bad + `'))) as event from unnest($1::text[]) k`,
		"a subquery with two rows": `select k as entity_key, to_json((select 1 from generate_series(1, case k when '` + bad + `' then 2 else 1 end))) as event
			from unnest($1::text[]) k`,
		"another key":   `select case k when '` + bad + `' then '99' else k end as entity_key, '{}'::json as event from unnest($1::text[]) k`,
		"a key of null": `select nullif(k, '` + bad + `') as entity_key, '{}'::json as event from unnest($1::text[]) k`,
		"it takes long": `select k as entity_key, '{}'::json as event from unnest($1::text[]) k where case k when '` + bad + `' then pg_sleep(60) is not null else true end`,
	} {
		for publisher, inTx := range map[string]bool{"outbox": true, "elsewhere": false} {
			t.Run(name+", events go "+publisher, func(t *testing.T) {
				t.Parallel()
				w := setup(t)
				w.exec(`insert into orders select n, 'ada', null, null from generate_series(1, 20) n`)
				for n := range 20 {
					w.due(slot(1), strconv.Itoa(n+1))
				}
				w.due(slot(1), bad)
				w.run(slot(1), w.config(query, func(c *sqljob.Config) {
					c.Timeout = 300 * time.Millisecond
					if inTx {
						c.Publisher = outbox.New(w.db, "")
					}
				}))
				state := w.state()
				if !strings.HasPrefix(state[bad], "12:30:00 query of job") {
					t.Errorf("%s: %s", bad, state[bad])
				}
				delete(state, bad)
				for key, got := range state {
					if got != "done" {
						t.Errorf("%s: %s", key, got)
					}
				}
			})
		}
	}
}

// With halves down to the row, and each of them twice, 32 rows would take 126 times the timeout.
func TestAQueryThatHangsIsNotCalledAgainForEachRow(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{1, 8, 32} {
		t.Run(strconv.Itoa(rows), func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			for n := range rows {
				w.due(slot(1), strconv.Itoa(n))
			}
			var calls atomic.Int64
			w.run(slot(1), w.config(`select k as entity_key, '{}'::json as event from unnest($1::text[]) k, pg_sleep(60)`, func(c *sqljob.Config) {
				c.Timeout, c.Publisher = 20*time.Millisecond, outbox.New(w.db, "")
				c.DB = func(ctx context.Context) (pgsql.Pool, error) {
					calls.Add(1)
					return w.queries(ctx)
				}
			}))
			most := int64(13)
			if rows == 1 {
				most = 1
			}
			if n := calls.Load(); n > most {
				t.Errorf("%d calls for %d rows, want at most %d", n, rows, most)
			}
			for key, got := range w.state() {
				if !strings.Contains(got, "statement timeout") || !strings.HasSuffix(got, "(its timeout is 20ms)") {
					t.Errorf("%s: %s", key, got)
				}
			}
		})
	}
}

// A login, a database or a server may have settings of its own.
func TestAQueryMeansTheSameWithTheSettingsOfAnyLogin(t *testing.T) {
	t.Parallel()
	w := setup(t)
	odd, err := pgsql.Open(t.Context(), w.url, pgsql.Param("bytea_output", "escape"), pgsql.Param("datestyle", "SQL, DMY"),
		pgsql.Param("intervalstyle", "sql_standard"), pgsql.Param("timezone", "Asia/Kathmandu"), pgsql.Param("extra_float_digits", "-15"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = odd.Close() })
	w.due(slot(1), "1")
	w.run(slot(1), w.config(`select k as entity_key, to_json(concat_ws(' ', bytea '\x01', timestamptz '2030-01-02 03:04Z', interval '-1 day 2 h', 0.1::float8 + 0.2)) as event
		from unnest($1::text[]) k`, func(c *sqljob.Config) {
		c.DB = func(context.Context) (pgsql.Pool, error) { return odd, nil }
	}))
	diff(t, raw(`"\\x01 2030-01-02 03:04:00+00 -1 days +02:00:00 0.30000000000000004"`), w.published()[0].Data)
}
