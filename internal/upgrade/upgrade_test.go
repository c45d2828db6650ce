package upgrade_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const settings = `events:
  source: https://shop.example.com/upgrade
sql_jobs:
  - name: thing.check
    query: |
      select number::text as entity_key, json_build_object('number', number) as event,
             case when number % 4 = 0 and again_until > clock_timestamp()
                  then clock_timestamp() + interval '1 second' end as next
      from shop.thing where number = any ($1::text[]::bigint[])
  - name: thing.asked
    query: select key as entity_key, null::json as event, null::timestamptz as next from unnest($1::text[]) as key
`

const rules = `rules:
  - name: order.unpaid
    table: shop.orders
    key: id
    since: placed_at
    done: paid_at
    steps:
      - {after: 2s, sql: "insert into shop.effect (id) values ($key)"}
      - {after: 4s, event: order.second}
`

const tables = `
create schema shop;
create table shop.thing (number bigint primary key, again_until timestamptz not null);
create table shop.orders (id bigint primary key, placed_at timestamptz not null, paid_at timestamptz);
create table shop.effect (id bigint not null);
insert into shop.thing select n, 'epoch' from generate_series(1000000, 1020000) as n;
select count(*) from generate_series(1000000, 1020000) as n,
    prescient.enqueue('thing.check', 'things', n::text, check_at => now() + interval '2 days', payload => '{"far": true}');
insert into shop.orders select n, now() + interval '2 days', null from generate_series(1000000, 1005000) as n;
`

// far describes what waits for long, by the columns that the old version knows.
const far = `
select md5(string_agg(concat_ws('|', id, job, entity_name, entity_key, item_key, group_key, first_check_at,
    next_check_at, check_count, error_count, payload, enqueued_at, enqueued_by), ';' order by id)) || ' ' || count(*)
from prescient.future_job where entity_key ~ '^[0-9]{7}$'`

// slotsOfPhase is how many slots are run between two steps of the upgrade.
func slotsOfPhase(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("PRESCIENT_UPGRADE_SLOTS"))
	switch {
	case err == nil && n > 0:
		return n
	case os.Getenv("PRESCIENT_UPGRADE_SLOTS") != "":
		t.Fatal("PRESCIENT_UPGRADE_SLOTS must be a number")
	}
	return 2
}

func TestAnUpgradeBesideRunnersOfBothVersionsLosesAndRepeatsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds two versions, and migrates beside their runs")
	}
	t.Parallel()
	pgtest.NotOnCitus(t, "its processes do not run as a test does")
	revision := oldRevision(t)
	url := pgtest.Empty(t)
	db := open(t, url)
	old := buildOld(t, revision)
	next := buildNew(t, old)
	w := newWorld(t, url)
	w.must(old, "migrate", "up")
	w.must(old, "slots", "set-width", "2s")
	execute(t, db, tables)
	w.must(old, "rules", "apply", "--file", w.write("rules.yaml", rules))
	w.must(old, "schedules", "create", "tick", "--crontab", "@every 2s")
	w.must(old, "schedules", "create", "daily", "--crontab", "0 9 * * *", "--timezone", "Europe/Berlin")
	execute(t, db, "analyze")
	before, known := get[string](t, db, far), findings(t, w, old)

	// The new binary refuses the old schema, and says what to do.
	if out, code := w.do(next, "run"); code != 1 || !strings.Contains(out, "migrate up") {
		t.Errorf("the new binary on the old schema: exit code %d\n%s", code, out)
	}

	prepared := []string{"PRESCIENT_DATABASE_PREPARE=on"}
	runners := []*process{
		w.start(old, false, nil, "daemon"), w.start(old, false, prepared, "daemon"),
		w.start(old, true, nil, "run", "--catch-up"),
	}
	a := &application{t: t, db: open(t, url)}
	a.begin()
	n := slotsOfPhase(t)
	beginRequests(t, db)
	a.phase(w, n, "old")
	request(t, db, "before", "keep")
	request(t, db, "pushed", "keep")

	if out := w.must(next, "migrate", "up"); strings.Contains(out, "nothing to do") {
		t.Errorf("migrate up of the new binary: %s", out)
	}
	a.phase(w, n, "old")
	everyCommand(t, w, old)
	request(t, db, "pushed", "push_back")
	request(t, db, "after", "keep")

	runners = append(runners,
		w.start(next, false, nil, "daemon"), w.start(next, false, prepared, "daemon"),
		w.start(next, true, nil, "run", "--catch-up"))
	a.phase(w, n, "old", "new")
	everyCommand(t, w, next)
	everyCommand(t, w, old)
	if out := w.must(old, "migrate", "up"); !strings.Contains(out, "nothing to do") {
		t.Errorf("migrate up of the old binary: %s", out)
	}

	// The way back: the old version alone, and then the new one.
	for _, p := range runners[3:] {
		p.end()
		p.works()
	}
	a.phase(w, n, "old")
	runners = append(runners[:3], w.start(next, false, nil, "daemon"))
	for _, p := range runners[:3] {
		p.end()
		p.works()
	}
	a.phase(w, n, "new")

	a.end()
	w.must(next, "jobs", "resume", "thing.asked")
	await.True(t, "the last rows to end", func() bool {
		return get[int](t, db, `
			select count(*) from prescient.future_job
			where entity_key !~ '^[0-9]{7}$' and entity_key not in ('tick', 'daily')`) == 0
	})
	runners[3].end()
	runners[3].works()
	w.must(next, "catch-up")
	w.must(next, "status", "--check")
	for name, text := range findings(t, w, next) {
		if known[name] == "" {
			t.Errorf("doctor finds %s: %s", name, text)
		}
	}
	if after := get[string](t, db, far); after != before {
		t.Errorf("what waits for long was %s and is %s", before, after)
	}
	a.check()
	checkRequests(t, db)
	checkSchedule(t, db)
	checkStatements(t, db, statementsOf(t, old))
	checkRefusal(t, w, db, old, next)
}

// everyCommand runs the commands that read and write, each of which must work.
func everyCommand(t *testing.T, w *world, b binary) {
	t.Helper()
	key := "of-" + b.name
	for _, line := range []string{
		"jobs add waits things " + key + " --in 72h", "jobs reschedule waits things " + key + " --in 96h",
		"why things " + key, "jobs cancel waits things " + key, "jobs list", "jobs history", "jobs stats", "jobs registered",
		"jobs pause waits", "jobs resume waits", "status", "slots list", "rules list", "rules show order.unpaid",
		"rules apply --file rules.yaml", "schedules list", "schedules show tick", "schedules pause daily",
		"schedules resume daily", "events tail", "plan forecast", "plan advise", "migrate status", "doctor",
	} {
		out, code := w.do(b, strings.Fields(line)...)
		if code != 0 && (line != "doctor" || code != 3) {
			t.Errorf("%s %s: exit code %d\n%s", b.name, line, code, out)
		}
	}
}

// findings returns what doctor finds, by name.
func findings(t *testing.T, w *world, b binary) map[string]string {
	t.Helper()
	out, _ := w.do(b, "doctor", "-o", "json")
	var v struct {
		Findings []struct{ Name, Severity, Message string }
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	all := map[string]string{}
	for _, f := range v.Findings {
		all[f.Name] = out
	}
	return all
}

// application writes while runners of both versions work.
type application struct {
	t  *testing.T
	db *sqlx.DB

	stop chan struct{}
	done sync.WaitGroup

	number                              int64
	kept, rolledBack, cancelled, orders []int64
}

// begin enqueues things and places orders, one after the other, until end.
func (a *application) begin() {
	a.stop = make(chan struct{})
	a.done.Go(func() {
		for {
			select {
			case <-a.stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			if err := a.write(); err != nil {
				a.t.Errorf("the application's write %d: %v", a.number, err)
				return
			}
		}
	})
}

func (a *application) end() {
	close(a.stop)
	a.done.Wait()
}

// fate of a number: most things are checked, some twice and more.
const (
	rolledBackOf = 11
	cancelledOf  = 13
	paidOf       = 5
	movedOf      = 7
)

func (a *application) write() error {
	ctx := a.t.Context()
	a.number++
	n := a.number
	tx, err := a.db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	soon := "1 second"
	if n%cancelledOf == 0 {
		soon = "1 hour"
	}
	const thing = "insert into shop.thing values ($1, clock_timestamp() + interval '4 seconds')"
	if _, err := tx.ExecContext(ctx, thing, n); err != nil {
		return err
	}
	const enqueue = "select * from prescient.enqueue('thing.check', 'things', $1, check_at => clock_timestamp() + $2::interval)"
	if _, err := tx.ExecContext(ctx, enqueue, strconv.FormatInt(n, 10), soon); err != nil {
		return err
	}
	const order = "insert into shop.orders values ($1, clock_timestamp(), case when $2 then clock_timestamp() end)"
	if _, err := tx.ExecContext(ctx, order, n, n%paidOf == 0); err != nil {
		return err
	}
	if n%rolledBackOf == 0 {
		a.rolledBack = append(a.rolledBack, n)
		return nil
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	a.orders = append(a.orders, n)
	if n%movedOf == 0 {
		if err := a.one("update shop.orders set placed_at = placed_at + interval '1 second' where id = $1", n); err != nil {
			return err
		}
	}
	if n%cancelledOf != 0 {
		a.kept = append(a.kept, n)
		return nil
	}
	a.cancelled = append(a.cancelled, n)
	return a.one("select prescient.cancel('thing.check', 'things', $1)", strconv.FormatInt(n, 10))
}

func (a *application) one(statement string, args ...any) error {
	return pgsql.InTx(a.t.Context(), a.db, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(a.t.Context(), statement, args...)
		return err
	})
}

// phase waits until some slots were run that had not begun before, and each version has checked rows.
func (a *application) phase(w *world, slots int, versions ...string) {
	a.t.Helper()
	from := get[time.Time](a.t, a.db, "select clock_timestamp()")
	await.True(a.t, fmt.Sprintf("%d slots with runners of %v", slots, versions), func() bool {
		done := get[int](a.t, a.db, "select count(*) from prescient.slot_run where slot > $1 and state = 'done'", from)
		var seen []string
		for _, runner := range list(a.t, a.db, `
			select distinct runner from prescient.future_job_history
			where slot > $1 and job_exec = 'thing.check' and outcome = 'done'`, from) {
			seen = append(seen, w.versionOf(runner))
		}
		return done >= slots && !slices.ContainsFunc(versions, func(v string) bool { return !slices.Contains(seen, v) })
	})
}

// check compares the database with what was committed.
func (a *application) check() {
	a.t.Helper()
	count := func(what, query string, numbers []int64, want int) {
		a.t.Helper()
		var keys []string
		for _, n := range numbers {
			keys = append(keys, strconv.FormatInt(n, 10))
		}
		wrong := list(a.t, a.db, `
			with counted as (
				select k as key, (`+query+`) as n from unnest(string_to_array($1, ',')) as k
			)
			select format('%s: %s', key, n) from counted where n is distinct from $2 limit 10`, strings.Join(keys, ","), want)
		if len(wrong) > 0 || len(numbers) == 0 {
			a.t.Errorf("%s: of %d, want %d for each, but %v", what, len(numbers), want, wrong)
		}
	}
	const (
		ended = `select count(*) from prescient.future_job_history h
			where h.job_exec = 'thing.check' and h.entity_key = k and h.outcome = `
		waits  = `select count(*) from prescient.future_job f where f.entity_key = k`
		places = `(select count(*) from prescient.future_job_history h
			where h.job_exec = 'thing.check' and h.entity_key = k) + (` + waits + `)`
		// each check publishes one event
		missing = `select h.check_count - (select count(*) from prescient.event_outbox e
			where e.type = 'thing.check' and e.subject = k)
			from prescient.future_job_history h where h.job_exec = 'thing.check' and h.entity_key = k`
		effects = `select count(*) from shop.effect f where f.id = k::bigint`
		second  = `select count(*) from prescient.event_outbox e where e.type = 'order.second' and e.subject = 'orders/' || k`
	)
	count("things that are done", ended+"'done'", a.kept, 1)
	count("things in one place", places, a.kept, 1)
	count("things whose events are missing or too many", missing, a.kept, 0)
	count("things that were cancelled", ended+"'cancelled'", a.cancelled, 1)
	count("things in one place that were cancelled", places, a.cancelled, 1)
	count("things that were rolled back", places, a.rolledBack, 0)
	var unpaid, paid []int64
	for _, n := range a.orders {
		if n%paidOf == 0 {
			paid = append(paid, n)
		} else {
			unpaid = append(unpaid, n)
		}
	}
	count("effects of unpaid orders", effects, unpaid, 1)
	count("events of unpaid orders", second, unpaid, 1)
	count("effects of paid orders", effects, paid, 0)
	count("events of paid orders", second, paid, 0)
	a.t.Logf("%d things were checked, %d cancelled, %d rolled back; %d orders",
		len(a.kept), len(a.cancelled), len(a.rolledBack), len(a.orders))
}

// beginRequests enqueues rows of a job that is paused, so they are due until it is resumed.
func beginRequests(t *testing.T, db *sqlx.DB) {
	t.Helper()
	execute(t, db, `
		select prescient.ensure_job('thing.asked');
		update prescient.job set paused_at = now(), paused_by = 'test' where name = 'thing.asked';
		select prescient.enqueue('thing.asked', 'things', key, check_at => now()) from unnest(array ['before', 'pushed', 'after']) as key`)
}

// request requests another check of a row that is due. The value is of the version of the schema.
func request(t *testing.T, db *sqlx.DB, key, onConflict string) {
	t.Helper()
	action := get[string](t, db, `
		select action from prescient.enqueue(
			'thing.asked', 'things', $1, check_at => now() + interval '1 second', on_conflict => $2, payload => jsonb_build_object('of', $1::text))`, key, onConflict)
	if action != "recorded" {
		t.Errorf("the request of %s was %s", key, action)
	}
}

// checkRequests wants two checks of each key. The second one has what the request gave. What the old version of the
// schema does not record is null.
func checkRequests(t *testing.T, db *sqlx.DB) {
	t.Helper()
	got := list(t, db, `
		select concat_ws(' ', entity_key, outcome, payload ->> 'of', upgraded, (request).upgraded)
		from prescient.future_job_history
		where job_exec = 'thing.asked'
		order by entity_key, slot`)
	want := []string{
		"after done new requested", "after done after requested", "before done new", "before done before",
		"pushed done new", "pushed done pushed",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the requests became %q, want %q", got, want)
	}
}

// checkSchedule wants each instant of the schedule once.
func checkSchedule(t *testing.T, db *sqlx.DB) {
	t.Helper()
	got := get[string](t, db, `
		select format('%s events, %s instants, %s expected', count(*), count(distinct time),
			extract(epoch from max(time) - min(time))::bigint / 2 + 1)
		from prescient.event_outbox where subject = 'tick' or id like 'tick-%'`)
	n, _, _ := strings.Cut(got, " ")
	if want := fmt.Sprintf("%[1]s events, %[1]s instants, %[1]s expected", n); got != want || n == "0" {
		t.Errorf("the schedule has %s", got)
	}
}

// checkStatements prepares each statement of the old version in the new schema, which has its tables and functions.
func checkStatements(t *testing.T, db *sqlx.DB, statements map[string]string) {
	t.Helper()
	for name, text := range statements {
		err := pgsql.InTx(t.Context(), db, func(tx *sqlx.Tx) error {
			stmt, err := tx.PrepareContext(t.Context(), text)
			if err != nil {
				return err
			}
			return stmt.Close()
		})
		if err != nil {
			t.Errorf("the new schema refuses the statement %s of the old version: %v", name, err)
		}
	}
	if len(statements) < 200 {
		t.Errorf("only %d statements were found", len(statements))
	}
}

// checkRefusal raises min_code_version: a process of the old version that runs already stops taking rows.
func checkRefusal(t *testing.T, w *world, db *sqlx.DB, old, next binary) {
	t.Helper()
	p := w.start(old, false, nil, "daemon")
	p.says("daemon is ready")
	execute(t, db, "update prescient.setting set min_code_version = schema_version")
	p.says("the database was migrated by a newer version of prescient: install that version")
	execute(t, db, `insert into shop.thing values (0, 'epoch');
		select prescient.enqueue('thing.check', 'things', '0', check_at => clock_timestamp())`)
	for _, command := range []string{"run", "catch-up", "status", "migrate up", "jobs list"} {
		out, code := w.do(old, strings.Fields(command)...)
		if code != 1 || !strings.Contains(out, "newer version of prescient") {
			t.Errorf("%s of the old version: exit code %d\n%s", command, code, out)
		}
	}
	daemon := w.start(next, false, nil, "daemon")
	await.True(t, "the new version to check the row", func() bool {
		runners := list(t, db, "select runner from prescient.future_job_history where entity_key = '0' and outcome = 'done'")
		return len(runners) == 1 && w.versionOf(runners[0]) == "new"
	})
	daemon.end()
	daemon.works()
	p.end()
}

func open(t *testing.T, url string) *sqlx.DB {
	t.Helper()
	db, err := pgsql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func execute(t *testing.T, db *sqlx.DB, statements string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statements); err != nil {
		t.Fatal(err)
	}
}

func get[T any](t *testing.T, db *sqlx.DB, query string, args ...any) (v T) {
	t.Helper()
	if err := db.GetContext(t.Context(), &v, query, args...); err != nil {
		t.Fatal(err, query)
	}
	return v
}

func list(t *testing.T, db *sqlx.DB, query string, args ...any) (v []string) {
	t.Helper()
	if err := db.SelectContext(t.Context(), &v, query, args...); err != nil {
		t.Fatal(err, query)
	}
	return v
}
