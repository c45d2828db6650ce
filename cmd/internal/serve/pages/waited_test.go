package pages_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/api"
	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/cmd/internal/serve/internal/story"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/health"
)

// A run notes in the ledger which session its rows wait for:
// TestARunThatWaitsLongForTheLockOfARowNamesTheSessionThatHoldsIt.
func TestASlotThatWaitedForALockNamesTheSessionAndIsNotCalledSlow(t *testing.T) {
	t.Parallel()
	const holder = "session 7 of shop (terminal, idle in transaction)"
	s := setup(t, nil)
	s.must(s.Ledger.Begin(t.Context(), s.Client.Grid().Floor(s.Now().Add(-5*time.Hour))))
	all := s.ran(2*time.Hour, time.Hour, 15*time.Minute)
	waited, slow, open := all[0], all[1], all[2]
	s.DB.MustExec(`update prescient.slot_job set last_at = (slot at time zone 'UTC' + interval '20 minutes') at time zone 'UTC'`)
	s.DB.MustExec(`update prescient.slot_run set finished_at = (slot at time zone 'UTC' + interval '20 minutes') at time zone 'UTC'`)
	s.DB.MustExec(`update prescient.slot_run set waited_for = $2 where slot = $1`, waited, holder)
	s.DB.MustExec(`update prescient.slot_run set waited_for = $2, state = 'open', finished_at = null, opened_at = statement_timestamp() where slot = $1`,
		open, holder)
	s.DB.MustExec(`insert into prescient.slot_claim (slot, token, kind, jobs, first_id, last_id, runner, allocated_until)
		values ($1, 1, 'run', '{}', 0, 0, 'here', clock_timestamp() + interval '1 hour')`, open)
	s.Enqueue(jobs.Request{JobExec: "order.unshipped", EntityName: "order", EntityKey: "1"}, s.Now().Add(time.Hour))
	s.DB.MustExec(`update prescient.future_job set next_check_at = $1`, open)
	b := s.browser().login(story.ReadToken)

	path := "/ledger?" + url.Values{"from": {waited.Format(time.RFC3339)}, "to": {open.Add(15 * time.Minute).Format(time.RFC3339)}}.Encode()
	page := b.get(path, http.StatusOK)
	labels := bars(page)
	for slot, want := range map[time.Time]string{
		waited: ": run, 2 rows, took 20m, rows waited for a lock of " + holder,
		slow:   ": run, 2 rows, took 20m, longer than the width",
	} {
		if got := labels["/slot?at="+url.QueryEscape(slot.Format(time.RFC3339))]; got != slot.Format(time.RFC3339)+want {
			t.Errorf("the bar says %q, want %q", got, want)
		}
	}
	if n := strings.Count(page, `class="wrong lane-1"`); n != 1 {
		t.Errorf("%d slots are called too long, want 1", n)
	}
	s.has(page, "<td>waited for a lock</td>", "<td>too long</td>")

	for slot, wrong := range map[time.Time]bool{waited: false, slow: true} {
		page := b.get("/slot?at="+url.QueryEscape(slot.Format(time.RFC3339)), http.StatusOK)
		if strings.Contains(page, "longer than the width") != wrong || strings.Contains(page, "Rows waited for a lock of</th><td>"+holder) == wrong {
			t.Errorf("the page of slot %s, slow is %v:\n%s", slot, wrong, text(page))
		}
	}
	s.has(b.get("/slot?at="+url.QueryEscape(open.Format(time.RFC3339)), http.StatusOK), `<span class="mark run">running</span>`)
	s.has(b.get("/", http.StatusOK), "is being run; 1 row waits in it, and waited for a lock of "+holder+".")

	handler := api.New(api.Config{
		Board: s.Board, Schedules: s.Schedules, DB: s.DB, Access: story.Access(t, slog.New(slog.DiscardHandler)),
	})
	r := httptest.NewRequest(http.MethodGet, "/api/v1/overview", nil)
	r.Header.Set("Authorization", "Bearer "+story.ReadToken)
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, r)
	var o board.Overview
	s.must(json.Unmarshal(answer.Body.Bytes(), &o))
	for _, c := range o.Axis {
		if want := c.Slot.Equal(slow); c.TooLong != want || (c.WaitedFor == holder) != (c.Slot.Equal(waited) || c.Slot.Equal(open)) {
			t.Errorf("slot %s of the API: too long is %v, waited for %q", c.Slot, c.TooLong, c.WaitedFor)
		}
	}
	var thresholds health.Thresholds
	s.must(thresholds.Set("overdue=0s"))
	report, err := health.Check(t.Context(), s.Ledger, time.Time{}, thresholds, func(string) bool { return true })
	s.must(err)
	found := map[string]string{}
	for _, f := range report.Findings {
		found[f.Condition] = f.Text
	}
	s.has(found["slow"], "slot "+slow.Format(time.RFC3339)+" has taken 20m")
	s.has(found["overdue"], "; rows of slot "+open.Format(time.RFC3339)+" have waited for a lock of "+holder)
	if report.Running[0].State != slots.StateOpen || report.Running[0].WaitedFor != holder {
		t.Errorf("%+v", report.Running)
	}
}
