package schedule_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// withSQL is a schedule that notes its instants in the table ran, every five minutes.
func withSQL(id string) schedule.Spec {
	spec := every(id)
	spec.Timezone = "Europe/Berlin"
	spec.Act.SQL = "insert into public.ran (id, at, zone, role) select '" + id + "', current_setting('prescient.instant')::timestamptz, " +
		"current_setting('timezone'), current_user"
	return spec
}

func (w *world) withRan() {
	w.db.MustExec("create table public.ran (id text, at timestamptz, zone text, role text, unique (id, at))")
}

// ran returns the instants at which the statement of a schedule ran, and its settings.
func (w *world) ran(id string) string {
	w.t.Helper()
	var text string
	err := w.db.GetContext(w.t.Context(), &text, `
		select coalesce(string_agg(to_char(at at time zone 'UTC', 'HH24:MI'), ' ' order by at), 'never') from public.ran where id = $1`, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

func TestAStatementRunsOnceForEachInstant(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.withRan()
	w.create(withSQL("a"))
	w.create(withSQL("b"))
	w.create(every("event"))
	w.run(slot(1))
	w.run(slot(2))
	for _, id := range []string{"a", "b"} {
		if got := w.ran(id); got != "12:05 12:10 12:15 12:20 12:25 12:30" {
			t.Errorf("%s ran at %s", id, got)
		}
	}
	if got := times(w.published()); got != "12:05 12:10 12:15 12:20 12:25 12:30" {
		t.Errorf("published %s", got)
	}
	var zone string
	if err := w.db.Get(&zone, "select distinct zone from public.ran"); err != nil || zone != "Europe/Berlin" {
		t.Errorf("the zone of the statement: %s, %v", zone, err)
	}
	if s := w.get("a"); s.Rows != 1 || !s.Last.Equal(slot(2)) || s.State != schedule.Active || s.ErrorCount != 0 {
		t.Errorf("%+v", s)
	}
}

// A statement that fails leaves nothing, neither of the instants before it, and is tried again in the next slot.
func TestAStatementThatFailsIsTriedAgainAndHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.withRan()
	bad := withSQL("bad")
	bad.Act.SQL = "insert into public.ran (id, at) select 'bad', i from (select current_setting('prescient.instant')::timestamptz as i) as s " +
		"where 1 / (case when i >= '2030-03-01 12:15:00Z' and not exists (select from public.ran where id = 'mended') then 0 else 1 end) = 1"
	w.create(bad)
	w.create(withSQL("good"))
	w.create(every("event"))
	result := w.run(slot(1))
	if result.Failed != 1 || result.Rescheduled != 2 {
		t.Errorf("%+v", result)
	}
	if got := w.ran("bad"); got != "never" {
		t.Errorf("the statement that failed ran at %s", got)
	}
	if got := w.ran("good"); got != "12:05 12:10 12:15" {
		t.Errorf("the other one ran at %s", got)
	}
	s := w.get("bad")
	if s.ErrorCount != 1 || !strings.Contains(s.LastError, "the statement for 2030-03-01T12:15:00Z") || !strings.Contains(s.LastError, "division by zero") {
		t.Errorf("%d errors, %s", s.ErrorCount, s.LastError)
	}
	w.db.MustExec("insert into public.ran (id) values ('mended')")
	w.run(slot(2))
	if got := w.ran("bad"); got != "12:05 12:10 12:15 12:20 12:25 12:30" {
		t.Errorf("mended, it ran at %s", got)
	}
	if s := w.get("bad"); s.ErrorCount != 0 || s.Dropped != 0 {
		t.Errorf("%+v", s)
	}
}

func TestMissedInstantsOfAStatementFollowThePolicy(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.withRan()
	for _, policy := range []schedule.Misfire{schedule.All, schedule.Latest, schedule.Skip} {
		spec := withSQL(string(policy))
		spec.Misfire = policy
		w.create(spec)
	}
	w.catchUp(slot(2).Add(time.Minute))
	w.run(slot(3))
	for id, want := range map[string]string{
		"all":    "12:05 12:10 12:15 12:20 12:25 12:30 12:35 12:40 12:45",
		"latest": "12:15 12:20 12:25 12:30 12:35 12:40 12:45",
		"skip":   "12:20 12:25 12:30 12:35 12:40 12:45",
	} {
		if got := w.ran(id); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}

func TestAStatementRunsAsItsRoleUntilItsTimeout(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.withRan()
	role := "schedule_janitor_" + strings.ToLower(rand.Text())
	w.db.MustExec("create role " + role)
	pgtest.DropRoles(t, w.db, role)
	w.db.MustExec("grant insert on public.ran to " + role)
	mine := withSQL("mine")
	mine.Act.Role = role
	w.create(mine)
	slow := withSQL("slow")
	slow.Act.SQL, slow.Act.Timeout = "select pg_sleep(60)", time.Second
	w.create(slow)
	w.run(slot(1))
	var as string
	if err := w.db.Get(&as, "select distinct role from public.ran"); err != nil || as != role {
		t.Errorf("it ran as %s, %v", as, err)
	}
	if s := w.get("slow"); s.ErrorCount != 1 || !strings.Contains(s.LastError, "statement timeout") {
		t.Errorf("%d errors, %s", s.ErrorCount, s.LastError)
	}
}

// The clock of the run is replayed, and only a runner may set one.
func TestAStatementWithARoleEnqueuesInAReplay(t *testing.T) {
	t.Parallel()
	w := setup(t)
	role := "schedule_clerk_" + strings.ToLower(rand.Text())
	w.db.MustExec("create role " + role)
	pgtest.DropRoles(t, w.db, role)
	w.db.MustExec("grant usage on schema prescient to " + role + "; grant execute on all functions in schema prescient to " + role)
	spec := withSQL("mine")
	spec.Act.Role, spec.Act.SQL = role, "select prescient.enqueue('remind', 'order', '1', check_at => timestamptz '2100-01-01')"
	w.create(spec)
	w.run(slot(1))
	if s := w.get("mine"); s.ErrorCount != 0 {
		t.Errorf("%d errors, %s", s.ErrorCount, s.LastError)
	}
}

func TestAScheduleEnqueuesACheckOfAJob(t *testing.T) {
	t.Parallel()
	w := setup(t)
	spec := every("reorder")
	spec.Payload, spec.Act.Job = json.RawMessage(`{"n": 1}`), "stock.check"
	w.create(spec)
	w.run(slot(1))
	var got []string
	err := w.db.Select(&got, `
		select j.name || ' ' || f.entity_name || ' ' || f.entity_key || ' ' || f.item_key || ' ' || (f.payload -> 'payload')::text
		from prescient.future_job f
		join prescient.job j on j.job = f.job
		where j.name = 'stock.check' and f.next_check_at = $1
		order by f.item_key`, slot(2))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for at := noon.Add(5 * time.Minute); !at.After(slot(1)); at = at.Add(5 * time.Minute) {
		want = append(want, fmt.Sprintf(`stock.check schedule reorder reorder-%d {"n": 1}`, at.Unix()))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if events := w.published(); len(events) != 0 {
		t.Errorf("published %s", times(events))
	}
}

func TestAScheduleNotifiesPeople(t *testing.T) {
	t.Parallel()
	w := setup(t)
	spec := every("standup")
	spec.Timezone, spec.Payload = "Europe/Berlin", json.RawMessage(`{"room": 7, "host": null}`)
	spec.Act.Notify = "ops"
	w.create(spec)
	spec.ID, spec.Act.Text = "text", "Room {{.payload.room}}{{.payload.host}} at {{.at}}"
	w.create(spec)
	w.run(slot(1))
	var got []string
	for _, e := range w.published() {
		var data struct {
			Text string `json:"text"`
			ID   string `json:"schedule_id"`
		}
		if err := json.Unmarshal(e.Data, &data); err != nil || e.Type != "prescient.notify.ops" || e.Subject != data.ID {
			t.Errorf("%+v, %v", e, err)
		}
		if e.Time.Equal(slot(1)) {
			got = append(got, data.Text)
		}
	}
	slices.Sort(got)
	want := []string{"Room 7 at 2030-03-01 13:15 CET", "standup, 2030-03-01 13:15 CET\nhost: \nroom: 7"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestATriggerDoesWhatTheScheduleDoes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.withRan()
	w.create(withSQL("a"))
	reorder := every("reorder")
	reorder.Act.Job = "stock.check"
	w.create(reorder)
	w.clock.Set(noon.Add(time.Minute))
	for id, want := range map[string]string{
		"a":       "ran the statement: 1 row",
		"reorder": fmt.Sprintf("enqueued a check of stock.check: schedule reorder, item reorder-trigger-%d", w.clock.Now().UnixMicro()),
	} {
		done, err := w.store.Trigger(t.Context(), w.db, w.publishing(), id)
		if err != nil || done.Event != nil || done.String() != want {
			t.Errorf("%s, %v, want %s", done, err, want)
		}
	}
	if got := w.ran("a"); got != "12:01" {
		t.Errorf("it ran at %s", got)
	}
	if n := w.count(`select count(*) from prescient.future_job f join prescient.job j on j.job = f.job where j.name = 'stock.check'`); n != 1 {
		t.Errorf("%d checks", n)
	}
	if _, err := w.store.Backfill(t.Context(), w.db, w.publishing(), "a", noon, slot(1)); err == nil || !strings.Contains(err.Error(), "it runs a statement") {
		t.Errorf("a backfill: %v", err)
	}
	w.set(`'ends', '@hourly', sql => 'commit'`)
	if _, err := w.store.Trigger(t.Context(), w.db, w.publishing(), "ends"); err == nil || !strings.Contains(err.Error(), "sql: must not commit") {
		t.Errorf("a statement of SQL that Go refuses: %v", err)
	}
}

// The check has the event's data, which are larger than the payload.
func TestATriggerEnqueuesEachPayloadThatTheInstantsEnqueue(t *testing.T) {
	t.Parallel()
	w := setup(t)
	spec := every("large")
	spec.Act.Job, spec.Payload = "stock.check", json.RawMessage(`"`+strings.Repeat("x", 1<<16-2)+`"`)
	w.create(spec)
	w.run(slot(1))
	const checks = `select count(*) from prescient.future_job f join prescient.job j on j.job = f.job where j.name = 'stock.check'`
	instants := w.count(checks)
	if _, err := w.store.Trigger(t.Context(), w.db, w.publishing(), "large"); err != nil {
		t.Fatal(err)
	}
	if n := w.count(checks); instants == 0 || n != instants+1 {
		t.Errorf("%d checks of instants, and %d after the trigger", instants, n)
	}
}

func TestAStatementIsReadBeforeItIsStored(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.withRan()
	for name, test := range map[string]struct {
		act  schedule.Act
		want string
	}{
		"unknown table":     {schedule.Act{SQL: "delete from public.nosuch"}, `sql: pq: relation "public.nosuch" does not exist`},
		"no schema":         {schedule.Act{SQL: "delete from ran"}, `sql: pq: relation "ran" does not exist`},
		"two statements":    {schedule.Act{SQL: "delete from public.ran; delete from public.ran"}, "multiple commands"},
		"commit":            {schedule.Act{SQL: "/* so */ Commit"}, "sql: must not commit: the statement runs in the transaction"},
		"beside a job":      {schedule.Act{SQL: "select 1", Job: "a"}, "sql: must not stand beside job or notify"},
		"two acts":          {schedule.Act{Notify: "ops", Job: "a"}, "job: must not stand beside notify"},
		"text alone":        {schedule.Act{Text: "a"}, "text: must stand beside notify"},
		"a bad template":    {schedule.Act{Notify: "ops", Text: "{{.id"}, "text: text:1: unclosed action"},
		"a bad receiver":    {schedule.Act{Notify: "Ops"}, `notify: "Ops": want the name of a receiver`},
		"unknown value":     {schedule.Act{Notify: "ops", Text: "{{.when}}"}, `text: text:1:2: executing "text" at <.when>: map has no entry for key "when": want .id, .at and .payload`},
		"copy":              {schedule.Act{SQL: "COPY (select 1) to '/tmp/nosuch'"}, "sql: must not copy"},
		"vacuum":            {schedule.Act{SQL: "-- so\nvacuum"}, "sql: must not vacuum: the statement runs in a transaction"},
		"a parameter":       {schedule.Act{SQL: "select $1"}, "sql: must not have parameters such as $1"},
		"an unknown role":   {schedule.Act{SQL: "select 1", Role: "nosuch"}, `sql: pq: role "nosuch" does not exist`},
		"role alone":        {schedule.Act{Role: "a"}, "role: must stand beside sql"},
		"timeout alone":     {schedule.Act{Timeout: time.Minute}, "timeout: must stand beside sql"},
		"a long timeout":    {schedule.Act{SQL: "select 1", Timeout: 2 * time.Hour}, "timeout: must be whole seconds, up to 1h"},
		"too large":         {schedule.Act{SQL: strings.Repeat("-", 100_001)}, "sql: must be at most 100000 bytes, is 100001"},
		"a job of its own":  {schedule.Act{Job: "schedule"}, "job: must not be schedule"},
		"a job without end": {schedule.Act{Job: strings.Repeat("a", 300)}, "job: must be at most 200 bytes, is 300"},
	} {
		spec := every("a")
		spec.Act = test.act
		if _, err := w.store.Create(t.Context(), w.db, spec); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	w.create(every("a"))
	spec := every("a")
	spec.Act.SQL = "delete from public.nosuch"
	tx := w.db.MustBegin()
	t.Cleanup(func() { _ = tx.Rollback() })
	if _, err := w.store.Update(t.Context(), tx, spec, schedule.AnyVersion); err == nil {
		t.Error("an update takes an unknown table")
	}
	if _, err := tx.ExecContext(t.Context(), "select 1"); err != nil {
		t.Errorf("the transaction of the caller: %v", err)
	}
}

// The transactions of the application lock the rows that a statement changes. It waits for them until its timeout.
func TestAStatementWaitsForALock(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.withRan()
	w.db.MustExec("insert into public.ran (id) values ('row')")
	spec := withSQL("a")
	spec.Misfire = schedule.Skip
	spec.Act.SQL = "update public.ran set zone = 'by the schedule' where id = 'row'"
	w.create(spec)
	tx := w.db.MustBegin()
	tx.MustExec("update public.ran set zone = 'by the application' where id = 'row'")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.run(slot(1))
	}()
	w.eventually("the statement to wait for the row", func() bool {
		return w.count("select count(*) from pg_locks where not granted") > 0
	})
	select {
	case <-ended:
		t.Error("the run has ended")
	case <-time.After(time.Second): // much longer than a run waits for a lock of its own
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	<-ended
	if s := w.get("a"); s.ErrorCount != 0 || s.Dropped != 0 || !s.Last.Equal(slot(1)) {
		t.Errorf("%+v", s)
	}
}

// countRows counts the rows that calls of the job get.
func (w *world) countRows() *atomic.Int64 {
	var n atomic.Int64
	w.around = func(
		ctx context.Context, c jobs.Call, next func(context.Context) ([]jobs.Result, error),
	) ([]jobs.Result, error) {
		n.Add(int64(len(c.Rows)))
		return next(ctx)
	}
	return &n
}

// Each statement has a transaction of its own, which locks only its own row.
func TestAStatementThatWaitsHoldsUpNoOtherSchedule(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.withRan()
	w.db.MustExec("insert into public.ran (id) values ('row')")
	slow := withSQL("a-slow")
	slow.Act.SQL = "update public.ran set zone = 'by the schedule' where id = 'row'"
	w.create(slow)
	w.create(withSQL("b"))
	w.create(withSQL("c"))
	w.create(every("event"))
	tx := w.db.MustBegin()
	tx.MustExec("update public.ran set zone = 'by the application' where id = 'row'")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.run(slot(1))
	}()
	w.eventually("the statement to wait for the row", func() bool {
		return w.count("select count(*) from pg_locks where not granted") > 0
	})
	w.eventually("the other statements to have run", func() bool {
		return w.ran("b") == "12:05 12:10 12:15" && w.ran("c") == "12:05 12:10 12:15"
	})
	if _, err := w.store.Pause(t.Context(), w.db, "b", schedule.AnyVersion); err != nil {
		t.Error(err)
	}
	if err := w.store.Delete(t.Context(), w.db, "c", schedule.AnyVersion); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	<-ended
	if s := w.get("a-slow"); s.ErrorCount != 0 || !s.Last.Equal(slot(1)) {
		t.Errorf("%+v", s)
	}
}

// The rows that all calls together get, and lock, are the cost of many statements that are due at once.
func TestTheCostOfStatementsGrowsWithTheirNumber(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.withRan()
	locked := w.countRows()
	const n = 30
	for i := range n {
		w.create(withSQL(fmt.Sprint("s", i)))
	}
	if result := w.run(slot(1)); result.Rescheduled != n {
		t.Errorf("%+v", result)
	}
	if got := locked.Load(); got != 2*n {
		t.Errorf("the calls got %d rows, want each twice", got)
	}
	if ran := w.count("select count(*) from public.ran"); ran != 3*n {
		t.Errorf("%d instants ran", ran)
	}
}

// A page that is slow as a whole publishes what it can, and goes on in another transaction before its time is over.
func TestAPageThatTakesLongGoesOnInAnotherTransaction(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.hold = time.Nanosecond
	locked := w.countRows()
	for _, id := range []string{"a", "b", "c"} {
		w.create(every(id))
	}
	if result := w.run(slot(1)); result.Rescheduled != 3 || result.Failed != 0 || locked.Load() != 3+2+1 {
		t.Errorf("the calls got %d rows, %+v", locked.Load(), result)
	}
	if got := len(w.published()); got != 9 {
		t.Errorf("%d events", got)
	}
}

// Statements that take long do not begin anew in each slot: what is done is recorded, and the next slot does the rest.
func TestStatementsThatTakeLongGoOnInTheNextSlot(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.withRan()
	w.hold = time.Nanosecond
	w.create(withSQL("a"))
	w.run(slot(1))
	if got := w.ran("a"); got != "12:05" {
		t.Errorf("it ran at %s", got)
	}
	if s := w.get("a"); !s.Slot.Equal(slot(2)) || !s.Next.Equal(noon.Add(10*time.Minute)) {
		t.Errorf("%+v", s)
	}
	w.hold = 0
	w.run(slot(2))
	if got := w.ran("a"); got != "12:05 12:10 12:15 12:20 12:25 12:30" {
		t.Errorf("it ran at %s", got)
	}
}

// The last statement of a row may begin just before the rest would wait for the next slot. If the time of the row ended
// sooner than this statement, all statements of the row would be undone, in each slot.
func TestTheLastStatementOfARowHasItsWholeTimeout(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.withRan()
	spec := withSQL("a")
	spec.Act.Timeout = schedule.MaxSQLTimeout
	w.create(spec)
	var left time.Duration
	w.around = func(
		ctx context.Context, _ jobs.Call, next func(context.Context) ([]jobs.Result, error),
	) ([]jobs.Result, error) {
		end, _ := ctx.Deadline()
		left = time.Until(end)
		return next(ctx)
	}
	w.run(slot(1))
	if want := 10*time.Minute + schedule.MaxSQLTimeout; left < want || w.ran("a") == "" {
		t.Errorf("the row has %s, want at least %s; it ran at %q", left, want, w.ran("a"))
	}
}

// SQL may write what Go refuses. It is the error of its own row.
func TestAnActOfSQLThatGoRefusesHarmsNoOther(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.withRan()
	for id, act := range map[string]string{
		"a-commit": "sql => 'commit'", "a-copy": "sql => 'copy public.ran from stdin'", "a-job": "job_exec => 'schedule'",
		"b-good": "sql => 'insert into public.ran (id) values (''b-good'')'",
	} {
		w.set("'" + id + "', '* * * * *', max_runs => 1, " + act)
	}
	w.runNext("b-good")
	for id, want := range map[string]string{
		"a-commit": "schedule a-commit: sql: must not commit", "a-copy": "schedule a-copy: sql: must not copy",
		"a-job": "schedule a-job: job: must not be schedule", "b-good": "",
	} {
		if s := w.get(id); !strings.Contains(s.LastError, want) || (s.LastError == "") != (want == "") {
			t.Errorf("%s: %s", id, s.LastError)
		}
	}
	if n := w.count("select count(*) from public.ran where id = 'b-good'"); n != 1 {
		t.Errorf("the good one ran %d times", n)
	}
}

// The login of the runs executes the statement, so a runner may not write it.
func TestOnlyAnOperatorWritesAStatement(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "roles are of one node")
	const schema pgsql.Schema = "schedule_rights"
	w := setup(t)
	pgtest.DropRoles(t, w.db, string(schema))
	err := errors.Join(pgsql.Migrate(t.Context(), w.db, schema), pgsql.MakeRoles(t.Context(), w.db, schema))
	if err != nil {
		t.Fatal(err)
	}
	if w.store, err = schedule.NewStore(t.Context(), w.db, schedule.Config{Schema: string(schema)}); err != nil {
		t.Fatal(err)
	}
	login := func(role pg.Role) *sqlx.DB {
		name := string(schema) + "_login_" + string(role)
		w.db.MustExec("create role " + name + " login password '" + name + "' in role " + role.In(schema))
		u, err := url.Parse(w.url)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(name, name)
		db, err := pgsql.Open(t.Context(), u.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	runner, operator := login(pg.Runner), login(pg.Operator)
	spec := withSQL("a")
	spec.Act.SQL = "select 1"
	if _, err := w.store.Create(t.Context(), runner, spec); !errors.Is(err, schedule.ErrStatement) {
		t.Errorf("a runner creates a statement: %v", err)
	}
	if _, err := runner.ExecContext(t.Context(), "select schedule_rights.set_schedule('a', '@hourly', sql => 'select 1')"); !pg.HasState(err, pqerror.InsufficientPrivilege) {
		t.Errorf("a runner creates a statement by SQL: %v", err)
	}
	if _, err := runner.ExecContext(t.Context(), "select schedule_rights.set_schedule('b', '@hourly', notify => 'ops')"); err != nil {
		t.Errorf("a runner creates a message by SQL: %v", err)
	}
	if _, err := w.store.Create(t.Context(), operator, spec); err != nil {
		t.Errorf("an operator creates a statement: %v", err)
	}
	if _, err := w.store.Pause(t.Context(), runner, "a", schedule.AnyVersion); err != nil {
		t.Errorf("a runner pauses it: %v", err)
	}
	spec.Act.SQL = "select 2"
	if _, err := w.store.Update(t.Context(), runner, spec, schedule.AnyVersion); !errors.Is(err, schedule.ErrStatement) {
		t.Errorf("a runner changes a statement: %v", err)
	}
	// Of the logins that run slots, none may take the role until one is a member.
	w.db.MustExec("create role schedule_rights_janitor; grant schedule_rights_janitor to schedule_rights_login_operator")
	w.db.MustExec("create role schedule_rights_cleaner")
	for role, want := range map[string]string{"janitor": "", "cleaner": "grant \"?schedule_rights_cleaner\"? to \"?schedule_rights_login_operator"} {
		act := schedule.Act{SQL: "select 3", Role: "schedule_rights_" + role}
		_, err := w.store.Create(t.Context(), operator, schedule.Spec{ID: "as-" + role, Crontab: "@hourly", Act: act})
		_, bySQL := operator.ExecContext(t.Context(), "select schedule_rights.set_schedule('sql-'||$1, '@hourly', sql => 'select 3', role => $2)", role, act.Role)
		if want == "" {
			if err := errors.Join(err, bySQL); err != nil {
				t.Errorf("%s: %v", role, err)
			}
			continue
		}
		if err == nil || !regexp.MustCompile("role: must be a role that a login of the runs may take: "+want).MatchString(err.Error()) {
			t.Errorf("%s: %v", role, err)
		}
		if wrong, is := errors.AsType[*pq.Error](bySQL); !is || !regexp.MustCompile(want).MatchString(wrong.Hint) {
			t.Errorf("%s by SQL: %v", role, bySQL)
		}
	}
	// A superuser takes every role, and may be the login of the runs.
	if _, err := w.store.Create(t.Context(), w.db, schedule.Spec{ID: "super", Crontab: "@hourly", Act: schedule.Act{SQL: "select 3", Role: "schedule_rights_cleaner"}}); err != nil {
		t.Errorf("a superuser: %v", err)
	}
	spec.Act = schedule.Act{Job: "stock.check"}
	for _, by := range []*sqlx.DB{operator, runner} { // the second one changes nothing
		if s, err := w.store.Update(t.Context(), by, spec, schedule.AnyVersion); err != nil || s.Act != spec.Act {
			t.Errorf("a job in place of a statement: %+v, %v", s.Act, err)
		}
	}
}
