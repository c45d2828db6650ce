package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// rowsOf are the lists of the API that have pages: the field that has their rows, and what tells one row from another.
var rowsOf = map[string][2]string{
	"/jobs": {"jobs", "job_exec"}, "/checks": {"checks", "entity_key"}, "/history": {"checks", "entity_key"},
	"/schedules": {"schedules", "id"}, "/events": {"events", "position"}, "/dead-letters": {"dead_letters", "number"},
	"/actions": {"actions", "id"},
}

// Each list goes on behind the after of its page, and then has each row once. Many rows have the same instant, and
// the rows of the list of jobs are in several states.
func TestEveryListHasEachRowOnceIfItsAfterIsFollowed(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "its workers do not follow the clock of a kit")
	const most = 23
	w := setup(t)
	noon := w.aDay() // with jobs that are overdue, failing, at work and quiet
	for n := range most {
		key := fmt.Sprintf("w%02d", n)
		w.enqueue("job."+key, noon.AddDate(0, 0, 2), key)
		_, err := w.schedules.Create(t.Context(), w.DB, schedule.Spec{ID: key, Crontab: "0 * * * *"})
		w.must(err)
		w.enqueue("many", noon.AddDate(0, 0, 3), key)
	}
	_, err := admin.New(w.Client).Pause(t.Context(), w.DB, "job.w07")
	w.must(err)
	_, err = w.DB.ExecContext(t.Context(), `
		insert into prescient.event_outbox (id, source, type, data)
		select n::text, 's', 't', '{}' from generate_series(1, 23) as n;
		insert into prescient.event_dead (consumer, id, source, type, subject, refusals, error, dead_at)
		select 'desk', n::text, 's', 't', 'a', 3, '422', now() from generate_series(1, 23) as n;
		insert into prescient.action (actor, what, target, plan, row_count, slots, schedules, events)
		select 'ann', 'cancel', n::text, 'Cancels it', 1, 0, 0, 0 from generate_series(1, 23) as n`)
	w.must(err)
	_, err = w.DB.ExecContext(t.Context(), `
		insert into prescient.future_job_history
			(id, job_exec, entity_name, entity_key, first_check_at, slot, check_count, error_count, spent, enqueued_at, enqueued_by, outcome, finished_at)
		select 1000 + n, 'old', 'order', n::text, $1, '2026-01-01', 1, 0, '0', $1, 'me', 'cancelled', $1 from generate_series(1, 23) as n`, w.Now())
	w.must(err)
	for _, route := range w.lists() {
		of, is := rowsOf[route]
		if !is {
			t.Errorf("no field of %s is known", route)
			continue
		}
		told := w.walk(route, of)
		slices.Sort(told)
		if once := slices.Compact(slices.Clone(told)); len(once) != len(told) || len(once) < most {
			t.Errorf("%s: %d rows, %d of them different", route, len(told), len(once))
		}
	}
	states := []string{}
	for _, j := range get[struct{ Jobs []struct{ State string } }](w, "/jobs?limit=200").Jobs {
		states = append(states, j.State)
	}
	if got := slices.Compact(states); !slices.Equal(got, []string{"unserved", "overdue", "failing", "paused", "ok", "idle"}) {
		t.Errorf("the states of the jobs come as %v", got)
	}
}

// lists returns the routes that take an after.
func (w *world) lists() (paths []string) {
	for _, r := range (&api{Config: w.config}).routes() {
		if r.Method == http.MethodGet && slices.Contains(r.Query, "after") {
			paths = append(paths, r.Path)
		}
	}
	return paths
}

// walk reads a list in pages of seven.
func (w *world) walk(route string, of [2]string) (told []string) {
	w.t.Helper()
	q := url.Values{"limit": {"7"}}
	if route == "/history" {
		q.Set("job_exec", "old")
	}
	for range 20 {
		page := get[map[string]json.RawMessage](w, route+"?"+q.Encode())
		var list []map[string]any
		w.must(json.Unmarshal(page[of[0]], &list))
		for _, row := range list {
			told = append(told, fmt.Sprint(row["job_exec"], row[of[1]]))
		}
		var after *string
		w.must(json.Unmarshal(page["after"], &after))
		if after == nil {
			return told
		}
		q.Set("after", *after)
	}
	w.t.Errorf("%s has no end", route)
	return told
}
