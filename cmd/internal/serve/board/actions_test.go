package board

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/sql/pgtest"
	"github.com/prescient-go/prescient/testkit"
)

func TestARunningActionIsStoppedIfItsServerGivesNoSign(t *testing.T) {
	t.Parallel()
	b, last, end := runAction(t, time.Hour)
	if got := last(); got.Outcome != Running || got.FinishedAt != nil {
		t.Errorf("the action runs: %+v", got)
	}
	b.cfg.DB.MustExec("update prescient.action set seen_at = statement_timestamp() - interval '70 seconds'")
	got := last()
	if got.Outcome != Stopped || got.Result != lost || got.FinishedAt == nil || time.Since(*got.FinishedAt) < lostAfter {
		t.Errorf("its server gives no sign: %+v", got)
	}
	end()
	await.True(t, "the action to end", func() bool { return last().Outcome == Succeeded })
}

func TestARunningActionIsRenewed(t *testing.T) {
	t.Parallel()
	b, last, end := runAction(t, time.Millisecond)
	b.cfg.DB.MustExec("update prescient.action set seen_at = statement_timestamp() - interval '70 seconds'")
	await.True(t, "the action to be renewed", func() bool { return last().Outcome == Running })
	end()
	await.True(t, "the action to end", func() bool { return last().Outcome == Succeeded })
}

func TestTheEndOfAnActionIsRecordedWhenTheDatabaseTakesItAgain(t *testing.T) {
	t.Parallel()
	b, last, end := runAction(t, time.Millisecond)
	b.cfg.DB.MustExec(`
		create sequence public.tries;
		create function public.refuse() returns trigger language plpgsql as $$
			begin
				if new.outcome is distinct from old.outcome then
					perform nextval('public.tries');
					raise 'not now';
				end if;
				return new;
			end
		$$;
		create trigger refuse before update on prescient.action for each row execute function public.refuse()`)
	end()
	await.True(t, "the end to be refused", func() (tried bool) {
		if err := b.cfg.DB.GetContext(t.Context(), &tried, "select is_called from public.tries"); err != nil {
			t.Fatal(err)
		}
		return tried
	})
	b.cfg.DB.MustExec("drop trigger refuse on prescient.action")
	await.True(t, "the end to be recorded", func() bool { return last().Outcome == Succeeded })
}

func TestACheckThatRanIsNoFailureIfOthersOfItsJobAreLocked(t *testing.T) {
	t.Parallel()
	registry := jobs.NewRegistry()
	registry.Register("ok", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	kit := testkit.New(t, testkit.Config{Registry: registry})
	b, err := New(t.Context(), Config{
		DB: kit.DB, Runner: slots.Config{Registry: registry, Now: kit.Clock.Now},
		Publishing: &schedule.PublishConfig{}, Now: kit.Clock.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	due := grid.Default.Next(kit.Now())
	_, err = kit.Client.EnqueueMany(t.Context(), jobs.OwnTx(kit.DB), []jobs.Request{
		{JobExec: "ok", EntityName: "order", EntityKey: "1", CheckAt: due.Add(24 * time.Hour)},
		{JobExec: "ok", EntityName: "order", EntityKey: "2", CheckAt: due},
	})
	if err != nil {
		t.Fatal(err)
	}
	kit.Clock.Set(due)
	holder := kit.DB.MustBegin()
	t.Cleanup(func() { _ = holder.Rollback() })
	holder.MustExec("select from prescient.future_job where entity_key = '2' for update")
	who := web.Who{Name: "ops", MayChange: true}
	run := action.RunCheck{Key: jobs.Key{JobExec: "ok", EntityName: "order", EntityKey: "1"}}
	plan, err := b.Preview(t.Context(), who, run)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Do(t.Context(), who, run, plan.Confirm); err != nil {
		t.Fatal(err)
	}
	var last Done
	await.True(t, "the action to end", func() bool {
		v, err := b.Actions(t.Context(), Page[int64]{Limit: 1}, b.cache.act())
		if err != nil {
			t.Fatal(err)
		}
		last = v.Actions[0]
		return last.Outcome != Running
	})
	const want = "ok on order 1 was checked, and ended as done. Other due checks of the job are locked, and left to catch-up: "
	if last.Outcome != Succeeded || !strings.HasPrefix(last.Result, want) {
		t.Errorf("%s: %s", last.Outcome, last.Result)
	}
}

// runAction begins an action, which waits for a lock until end is called, and which is renewed with
// the given period. last reads its record.
func runAction(t *testing.T, renew time.Duration) (b *Board, last func() Done, end func()) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	registry := jobs.NewRegistry()
	registry.Register("ok", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	kit := testkit.New(t, testkit.Config{Registry: registry})
	b, err := New(t.Context(), Config{
		DB: kit.DB, Runner: slots.Config{Registry: registry, Now: kit.Clock.Now},
		Publishing: &schedule.PublishConfig{}, Now: kit.Clock.Now,
	})
	must(err)
	t.Cleanup(b.Close)
	b.renew = renew
	request := jobs.Request{JobExec: "ok", EntityName: "order", EntityKey: "1", CheckAt: kit.Now().Add(time.Hour)}
	_, err = kit.Client.Enqueue(t.Context(), jobs.OwnTx(kit.DB), request)
	must(err)
	tx := kit.DB.MustBegin()
	t.Cleanup(func() { _ = tx.Rollback() }) // so that Close ends, whatever happens
	tx.MustExec("lock table prescient.future_job_history in share mode")
	who, cancel := web.Who{Name: "ops", MayChange: true}, action.CancelMany{JobExec: "ok"}
	plan, err := b.Preview(t.Context(), who, cancel)
	must(err)
	_, err = b.Do(t.Context(), who, cancel, plan.Confirm)
	must(err)
	pgtest.AwaitWaits(t, kit.DB, 1)
	last = func() Done {
		t.Helper()
		v, err := b.Actions(t.Context(), Page[int64]{Limit: 1}, b.cache.act())
		must(err)
		return v.Actions[0]
	}
	return b, last, func() { must(tx.Commit()) }
}
