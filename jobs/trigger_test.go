package jobs_test

import (
	"strings"
	"testing"

	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// ignoring is a world in which a trigger suppresses an operation on the row of order 13.
func ignoring(t *testing.T, operation, then string) *world {
	t.Helper()
	// A statement that never ends fails the test.
	w := setupWith(t, "statement_timeout", "30s")
	if operation != "insert" {
		w.enqueue(check("13", now.AddDate(0, 0, 1)), jobs.Keep)
	}
	w.exec(`create function ignore_13() returns trigger language plpgsql as $$
		begin
			if (coalesce(old, new)).entity_key = '13' then
				` + then + `
			end if;
			return coalesce(new, old);
		end $$`)
	w.exec(`create trigger ignore_13 before ` + operation + ` on prescient.future_job for each row execute function ignore_13()`)
	return w
}

// suppressed fails the test unless err says that a trigger has suppressed a change.
func suppressed(t *testing.T, err error) {
	t.Helper()
	if !pg.HasState(err, pqerror.TriggeredDataChangeViolation) || !strings.Contains(err.Error(), "trigger") {
		t.Errorf("want an error that names the trigger's effect, got %v", err)
	}
}

func TestAnEnqueueThatATriggerSuppressesEndsInAnError(t *testing.T) {
	pgtest.NotOnCitus(t, "it has no triggers on the tables of the schema")
	t.Parallel()
	const drop = `return null;`
	const rename = `new.entity_key := '14';`
	later := check("13", now.AddDate(0, 0, 2))
	nameless := anonymous("13", now.AddDate(0, 0, 2))
	for _, c := range []struct {
		name, operation, then string
		job                   jobs.Request
		on                    jobs.OnConflict
	}{
		{"insert", "insert", drop, later, jobs.Keep},
		{"insert of an anonymous row", "insert", drop, nameless, jobs.Keep},
		{"insert under another key", "insert", rename, later, jobs.Keep},
		{"delete for replace", "delete", drop, later, jobs.Replace},
		{"update for push-back", "update", drop, later, jobs.PushBack(0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := ignoring(t, c.operation, c.then)
			w.enqueue(check("14", now), jobs.Keep) // the trigger concerns one row alone
			_, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), c.job, c.on)
			suppressed(t, err)
			list := []jobs.Request{check("12", now), c.job, check("15", now)}
			_, err = w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), list, c.on)
			suppressed(t, err)
			_, err = w.client.EnqueueAll(t.Context(), jobs.OwnTx(w.db), func(yield func(jobs.Request) bool) {
				_ = yield(list[0]) && yield(list[1]) && yield(list[2])
			}, c.on)
			suppressed(t, err)
			if n := len(w.waiting()); n > 2 {
				t.Errorf("%d rows wait, want at most the two of before", n)
			}
		})
	}
}

func TestAMoveThatATriggerSuppressesEndsInAnError(t *testing.T) {
	pgtest.NotOnCitus(t, "it has no triggers on the tables of the schema")
	t.Parallel()
	w := ignoring(t, "update", `return null;`)
	_, _, err := w.client.Reschedule(t.Context(), jobs.OwnTx(w.db), keyOf("13"), now.AddDate(0, 0, 2))
	suppressed(t, err)
	_, _, err = w.client.PushBack(t.Context(), jobs.OwnTx(w.db), keyOf("13"), now.AddDate(0, 0, 2), 0)
	suppressed(t, err)
}

func TestACancellationThatATriggerSuppressesEndsInAnError(t *testing.T) {
	pgtest.NotOnCitus(t, "it has no triggers on the tables of the schema")
	t.Parallel()
	w := ignoring(t, "delete", `return null;`)
	_, err := w.client.Cancel(t.Context(), jobs.OwnTx(w.db), keyOf("13"))
	suppressed(t, err)
	_, err = w.client.CancelEntity(t.Context(), jobs.OwnTx(w.db), "order", "13")
	suppressed(t, err)
	_, err = w.client.End(t.Context(), jobs.OwnTx(w.db), jobs.OutcomeDone, w.waiting()...)
	suppressed(t, err)
	_, _, err = admin.New(w.client).CancelMany(t.Context(), w.db, admin.CancelFilter{EntityKey: "13"}, admin.Position{}, 10)
	suppressed(t, err)
}
