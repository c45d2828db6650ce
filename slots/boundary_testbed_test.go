package slots_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// testbed is a database in which trials take place, one after the other: to empty one costs a hundredth of making one.
type testbed struct {
	url    string
	admin  *sqlx.DB
	db     *sqlx.DB // of every session but process A
	trials int

	mu   sync.Mutex
	dead []*process // that may not have noticed yet
}

// Triggers write down who claimed what and which records were fenced, to be judged when the trial is over: a claim is
// judged in the order in which its row was changed, a record when it commits.
const watch = `
create table effect (id bigint, checks int, errors int, process text);
create table orders (key text primary key, placed_at timestamptz, shipped_at timestamptz);

create table claim_event (
	seq bigint generated always as identity, tx xid8 default pg_current_xact_id(), began timestamptz default now(), what text, slot timestamptz,
	token bigint, was bigint, live boolean, jobs bigint[], first_id bigint, last_id bigint, runner text
);
create function watch_claim() returns trigger language plpgsql as $$
begin
	if tg_op = 'INSERT' then
		-- A runner that takes over a part of a claim leaves the rest under a lease that has ended.
		insert into public.claim_event (what, slot, token, jobs, first_id, last_id, runner)
		values (case when new.allocated_until < clock_timestamp() then 'left' else 'claimed' end, new.slot, new.token, new.jobs, new.first_id, new.last_id, new.runner);
	elsif tg_op = 'DELETE' then
		insert into public.claim_event (what, slot, token, live, runner)
		values ('ended', old.slot, old.token, old.allocated_until >= clock_timestamp(), old.runner);
	elsif old.token <> new.token then
		insert into public.claim_event (what, slot, token, was, live, jobs, first_id, last_id, runner)
		values ('taken over', new.slot, new.token, old.token, old.allocated_until >= clock_timestamp(), new.jobs, new.first_id, new.last_id, new.runner);
	end if;
	return null;
end $$;
create trigger watch_claim after insert or update or delete on prescient.slot_claim for each row execute function watch_claim();

create table unfenced (token bigint, part bigint, job bigint);
create function watch_record() returns trigger language plpgsql as $$
begin
	if not exists (select from prescient.slot_claim where token = new.token)
		and not exists (select from public.claim_event where token = new.token and what = 'ended' and tx = pg_current_xact_id())
		and exists (select from prescient.slot_progress where token = new.token and part = new.part and job = new.job)
	then
		insert into public.unfenced values (new.token, new.part, new.job);
	end if;
	return null;
end $$;
create constraint trigger watch_record after insert on prescient.slot_progress deferrable initially deferred
for each row when (new.job > 0) execute function watch_record()`

func newTestbed(t testing.TB) *testbed {
	t.Helper()
	s := &testbed{url: pgtest.Direct(t)} // its faults are of the way to the server
	open := func() *sqlx.DB {
		db, err := pgsql.Open(t.Context(), s.url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	s.admin = open()
	s.admin.SetMaxOpenConns(1)
	s.admin.MustExec(watch)
	// Compiling statements that run once would take most of the time.
	s.admin.MustExec(`do $$ begin execute format('alter database %I set jit = off', current_database()); end $$`)
	s.db = open()
	s.db.SetMaxIdleConns(8)
	return s
}

// tables are the tables that a trial writes.
const tables = "prescient.future_job prescient.future_job_history prescient.slot_job prescient.slot_run prescient.slot_claim " +
	"prescient.slot_progress prescient.job prescient.schedule prescient.schedule_state prescient.event_outbox " +
	"prescient.rule prescient.rule_fired orders effect claim_event unfenced"

// reset ends what earlier trials have left and empties the database.
func (s *testbed) reset(t testing.TB) {
	t.Helper()
	s.do(t, `
		select pg_terminate_backend(pid, 10000) from pg_stat_activity
		where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend' and state <> 'idle'`)
	if s.trials++; s.trials%50 == 0 {
		s.do(t, "truncate "+strings.ReplaceAll(tables, " ", ", ")+" cascade") // what was deleted is in the way after a while
	} else {
		s.do(t, "delete from "+strings.ReplaceAll(tables, " ", "; delete from "))
	}
	s.do(t, `select prescient.set_width('15 minutes', $1) from prescient.setting where width <> '15 minutes'`, noon)
}

func (s *testbed) do(t testing.TB, query string, args ...any) {
	t.Helper()
	if _, err := s.admin.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", query, err))
	}
}

// slowness tells whether the machine was too slow for a lease to mean anything: for a fifth of one a statement had no
// answer. A late reply to a heartbeat leaves two ninths of a lease until it ends.
type slowness struct {
	mu   sync.Mutex
	last time.Time
}

// watchSlowness asks a database for something, as a heartbeat does, until the test ends.
func watchSlowness(t *testing.T) *slowness {
	s := &slowness{}
	db := pgtest.New(t)
	go func() {
		for asked := time.Now(); t.Context().Err() == nil; asked = time.Now() {
			time.Sleep(20 * time.Millisecond)
			_, err := db.ExecContext(t.Context(), "select 1")
			if err != nil || time.Since(asked) > trialLease/5 {
				s.mu.Lock()
				s.last = time.Now()
				s.mu.Unlock()
			}
		}
	}()
	return s
}

// since tells whether there was such a moment after began.
func (s *slowness) since(began time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last.After(began)
}

// lingers leaves a dead process to itself: it works on nothing any more, and may take its time to find out.
func (s *testbed) lingers(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = append(s.dead, p)
}

// bury waits for the dead processes.
func (s *testbed) bury(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.dead {
		select {
		case <-p.ended:
		case <-ctx.Done():
			return fmt.Errorf("a runner whose process has died in the scenario %q has not returned", p.trial.scenario.name)
		}
	}
	return nil
}
