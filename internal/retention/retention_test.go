package retention_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/retention"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const day = 24 * time.Hour

// A process that cron starts in each slot has no memory of the last time.
func TestWhatIsOldIsDroppedOnceADayWithTheRightsOfARunner(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "there are no roles; see docs/citus.md")
	url := pgtest.URL(t)
	owner, err := pgsql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = owner.Close() })
	const schema = pgsql.Schema("retention")
	pgtest.DropRoles(t, owner, "retention_")
	if err := pgsql.Migrate(t.Context(), owner, schema); err != nil {
		t.Fatal(err)
	}
	if err := pgsql.MakeRoles(t.Context(), owner, schema); err != nil {
		t.Fatal(err)
	}
	owner.MustExec(`
		select retention.make_history_month('2020-01-15');
		insert into retention.slot_run (slot, state, kind, planned, finished_at)
		select slot, 'done', 'run', 0, slot
		from generate_series(date_trunc('day', now()) - interval '9 days', date_trunc('day', now()) - interval '1 day', '15 minutes') as slot;
		update retention.setting set since = date_trunc('day', now()) - interval '9 days';
		create role retention_cron in role retention_runner`)
	db, err := pgsql.Open(t.Context(), url, pgsql.Param("role", "retention_cron"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	now := time.Now().UTC()
	c := retention.Config{DB: db, Schema: schema, Keep: 5 * day, Now: func() time.Time { return now }}
	for _, step := range []struct {
		passes     time.Duration
		due        bool
		partitions int
	}{
		{0, true, 1},
		{0, false, 0},
		{12 * time.Hour, false, 0},
		{14 * time.Hour, true, 0},
	} {
		now = now.Add(step.passes)
		due, err := retention.Due(t.Context(), c)
		if err != nil || due != step.due {
			t.Fatalf("at %s it is due: %t, %v", now, due, err)
		}
		if !due {
			continue
		}
		done, err := retention.Prune(t.Context(), c, time.Minute)
		if err != nil || done.Partitions != step.partitions || done.Slots < 90 {
			t.Errorf("at %s: %+v, %v", now, done, err)
		}
		var older int
		err = owner.GetContext(t.Context(), &older, `select count(*) from retention.slot_run where slot < $1`, now.Add(-c.Keep))
		if err != nil || older > 0 {
			t.Errorf("%d old slots are left: %v", older, err)
		}
	}
}

// A row that waits keeps the ledger from its slot on, and is no reason to prune at each run.
func TestAnOldRowThatWaitsMakesNoPruneDueAgainAndAgain(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.MustExec(`
		insert into prescient.slot_run (slot, state, kind, planned, finished_at)
		select slot, 'done', 'run', 0, slot
		from generate_series(date_trunc('day', now()) - interval '9 days', date_trunc('day', now()), '15 minutes') as slot;
		update prescient.setting set since = date_trunc('day', now()) - interval '9 days';
		insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at)
		select prescient.ensure_job('paused'), 'order', '1', at, at from (values (date_trunc('day', now()) - interval '8 days')) as v (at)`)
	c := retention.Config{DB: db, Keep: 5 * day}
	if due, err := retention.Due(t.Context(), c); err != nil || due {
		t.Errorf("it is due: %t, %v", due, err)
	}
	db.MustExec(`delete from prescient.future_job`)
	if due, err := retention.Due(t.Context(), c); err != nil || !due {
		t.Errorf("without the row it is due: %t, %v", due, err)
	}
}

func TestAPruneWhoseTimeIsOverLeavesTheRestToTheNext(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if _, err := retention.Prune(t.Context(), retention.Config{DB: db, Keep: day}, time.Nanosecond); err != nil {
		t.Error(err)
	}
}

// The outbox keeps what a consumer has not read, however old it is.
func TestEventsThatEachConsumerHasReadAreDroppedWithTheRightsOfARunner(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "there are no roles; see docs/citus.md")
	url := pgtest.URL(t)
	owner, err := pgsql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = owner.Close() })
	const schema = pgsql.Schema("outbox_retention")
	pgtest.DropRoles(t, owner, "outbox_retention_")
	if err := errors.Join(pgsql.Migrate(t.Context(), owner, schema), pgsql.MakeRoles(t.Context(), owner, schema)); err != nil {
		t.Fatal(err)
	}
	owner.MustExec(`
		insert into outbox_retention.event_outbox (mark, id, source, type, written_at)
		select n::text::xid8, n, 'test', 't', now() - interval '10 days' + n * interval '1 day' from generate_series(1, 9) n;
		insert into outbox_retention.event_consumer (name, mark, position) values ('fast', '9', 9), ('slow', '2', 2);
		insert into outbox_retention.event_sent (consumer, source, id, sent_at) values ('a', 's', 'old', now() - interval '9 days'), ('a', 's', 'new', now());
		create role outbox_retention_cron in role outbox_retention_runner`)
	db, err := pgsql.Open(t.Context(), url, pgsql.Param("role", "outbox_retention_cron"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	c := retention.Config{DB: db, Schema: schema, Keep: 5*day + 12*time.Hour}
	for _, step := range []struct {
		due  bool
		left string // events
	}{{true, "3 4 5 6 7 8 9"}, {false, ""}, {true, "5 6 7 8 9"}, {false, ""}} {
		due, err := retention.Due(t.Context(), c)
		if err != nil || due != step.due {
			t.Fatalf("it is due: %t, %v", due, err)
		}
		if !due { // the slow consumer reads on
			owner.MustExec("update outbox_retention.event_consumer set mark = '9', position = 9")
			continue
		}
		if _, err := retention.Prune(t.Context(), c, time.Minute); err != nil {
			t.Fatal(err)
		}
		var left, sent string
		err = owner.QueryRow(`select string_agg(id, ' ' order by position) from outbox_retention.event_outbox`).Scan(&left)
		err = errors.Join(err, owner.QueryRow(`select string_agg(id, ' ') from outbox_retention.event_sent`).Scan(&sent))
		if err != nil || left != step.left || sent != "new" {
			t.Errorf("events %q, want %q; messages %q: %v", left, step.left, sent, err)
		}
	}
}
