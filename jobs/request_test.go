package jobs_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
)

// TestWhatAnEnqueueDoesToAKeyThatWaits asks for slot 8, in each state of a row that waits for slot 2.
func TestWhatAnEnqueueDoesToAKeyThatWaits(t *testing.T) {
	t.Parallel()
	policies := map[string]jobs.OnConflict{
		"Keep": jobs.Keep, "nil": nil, "Replace": jobs.Replace, "Reject": jobs.Reject,
		"PushBack": jobs.PushBack(0), "PushBack with a maximum wait": jobs.PushBack(time.Hour),
	}
	type want struct {
		counts jobs.EnqueueCounts
		slot   int  // of the row that waits then
		other  bool // it is another row
	}
	refused := want{slot: -1}
	all := func(w want) map[string]want {
		m := map[string]want{}
		for policy := range policies {
			m[policy] = w
		}
		return m
	}
	isDue := all(want{jobs.EnqueueCounts{Recorded: 1}, 2, false})
	isDue["Reject"] = refused
	for state, test := range map[string]struct {
		early, opened, claimed bool
		then                   string
		want                   map[string]want
	}{
		"not yet due": {early: true, want: map[string]want{
			"Keep": {jobs.EnqueueCounts{Kept: 1}, 2, false}, "nil": {jobs.EnqueueCounts{Kept: 1}, 2, false},
			"Replace": {jobs.EnqueueCounts{Replaced: 1}, 8, true}, "Reject": refused,
			"PushBack": {jobs.EnqueueCounts{PushedBack: 1}, 8, false}, "PushBack with a maximum wait": {jobs.EnqueueCounts{PushedBack: 1}, 6, false},
		}},
		"due, in a slot that no runner has opened": {want: isDue},
		"due, and not claimed":                     {opened: true, want: isDue},
		"claimed, or being checked":                {opened: true, claimed: true, want: isDue},
		"left behind in a slot that is closed": {
			opened: true, claimed: true, want: isDue,
			then: "delete from prescient.slot_claim; update prescient.slot_run set state = 'done', finished_at = now()",
		},
		"cancelled": {
			opened: true, claimed: true, then: "select prescient.cancel('remind', 'order', '1')",
			want: all(want{jobs.EnqueueCounts{Inserted: 1}, 8, true}),
		},
	} {
		for way, ask := range ways {
			t.Run(state+" "+way, func(t *testing.T) {
				t.Parallel()
				w, row := due(t, test.opened, test.claimed)
				if test.early {
					var err error
					if w.client, err = jobs.NewClient(t.Context(), w.db, jobs.Config{Now: func() time.Time { return now }}); err != nil {
						t.Fatal(err)
					}
				}
				if test.then != "" {
					w.exec(test.then)
				}
				for policy, want := range test.want {
					tx := w.db.MustBegin()
					got, err := ask(w, tx, slot(8), policies[policy])
					if want == refused {
						if !errors.Is(err, jobs.ErrExists) {
							t.Errorf("%s: %+v, %v", policy, got, err)
						}
					} else {
						list, failed := admin.New(w.client).Show(t.Context(), tx, "order", "1")
						if err != nil || failed != nil || got != want.counts ||
							len(list) != 1 || !list[0].NextCheckAt.Equal(slot(want.slot)) || (list[0].ID != row.ID) != want.other {
							t.Errorf("%s: %+v, %v, and waiting is %+v, %v; want %+v", policy, got, err, list, failed, want)
						}
					}
					if err := tx.Rollback(); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

// ended describes a key: the slot of its waiting row, and the outcomes of its ended rows, in order.
type ended struct {
	Waiting string
	History []jobs.Outcome
}

// TestWhatComesOfARequestOnARowThatIsDue has a row that is due in slot 2 asked for, and its check end it or ask for
// slot 5.
func TestWhatComesOfARequestOnARowThatIsDue(t *testing.T) {
	t.Parallel()
	enqueue := func(payload string, at int, on jobs.OnConflict) func(w *world) error {
		return func(w *world) error {
			j := check("1", slot(at))
			j.Payload = json.RawMessage(`"` + payload + `"`)
			e, err := w.client.Enqueue(w.t.Context(), jobs.OwnTx(w.db), j, on)
			if err == nil && (e.Action != jobs.ActionRecorded || !e.Slot.Equal(slot(2))) {
				err = fmt.Errorf("%+v", e)
			}
			return err
		}
	}
	pushBack := func(at int, most time.Duration) func(w *world) error {
		return func(w *world) error {
			s, found, err := w.client.PushBack(w.t.Context(), jobs.OwnTx(w.db), keyOf("1"), slot(at), most)
			if err == nil && (!found || !s.Equal(slot(2))) {
				err = fmt.Errorf("%s, %v", s, found)
			}
			return err
		}
	}
	reschedule := func(w *world) error {
		s, _, err := w.client.Reschedule(w.t.Context(), jobs.OwnTx(w.db), keyOf("1"), slot(6))
		if err == nil && !s.Equal(slot(6)) {
			err = fmt.Errorf("rescheduled to %s", s)
		}
		return err
	}
	cancel := func(w *world) error {
		_, err := w.client.Cancel(w.t.Context(), jobs.OwnTx(w.db), keyOf("1"))
		return err
	}
	type calls []func(w *world) error
	replaced := []jobs.Outcome{jobs.OutcomeReplaced}
	done := []jobs.Outcome{jobs.OutcomeDone}
	for name, test := range map[string]struct {
		calls  calls
		ends   ended // if the check ends the row
		goesOn ended // if it asks for slot 5
	}{
		"nothing":          {nil, ended{"", done}, ended{"old in slot 5", nil}},
		"keep":             {calls{enqueue("a", 8, jobs.Keep)}, ended{"a in slot 8", done}, ended{"old in slot 5", nil}},
		"keep, of now":     {calls{enqueue("a", 0, jobs.Keep)}, ended{"a in slot 3", done}, ended{"old in slot 5", nil}},
		"replace":          {calls{enqueue("a", 8, jobs.Replace)}, ended{"a in slot 8", done}, ended{"a in slot 8", replaced}},
		"replace, earlier": {calls{enqueue("a", 4, jobs.Replace)}, ended{"a in slot 4", done}, ended{"a in slot 4", replaced}},
		"push back":        {calls{enqueue("a", 8, jobs.PushBack(0))}, ended{"a in slot 8", done}, ended{"old in slot 8", nil}},
		"push back with a maximum wait": {
			calls{enqueue("a", 8, jobs.PushBack(time.Hour))}, ended{"a in slot 8", done}, ended{"old in slot 6", nil},
		},
		"push back beyond its maximum wait": {
			calls{enqueue("a", 8, jobs.PushBack(time.Minute))}, ended{"a in slot 8", done}, ended{"old in slot 5", nil},
		},
		"push back by the key": {calls{pushBack(8, 0)}, ended{"old in slot 8", done}, ended{"old in slot 8", nil}},
		"push back by the key, with a maximum wait": {
			calls{pushBack(8, time.Hour)}, ended{"old in slot 8", done}, ended{"old in slot 6", nil},
		},
		"keep after keep": {
			calls{enqueue("a", 8, jobs.Keep), enqueue("b", 7, jobs.Keep)}, ended{"a in slot 8", done}, ended{"old in slot 5", nil},
		},
		"replace after keep": {
			calls{enqueue("a", 8, jobs.Keep), enqueue("b", 7, jobs.Replace)}, ended{"b in slot 7", done}, ended{"b in slot 7", replaced},
		},
		"keep after replace": {
			calls{enqueue("a", 8, jobs.Replace), enqueue("b", 7, jobs.Keep)}, ended{"a in slot 8", done}, ended{"a in slot 8", replaced},
		},
		"push back after keep": {
			calls{enqueue("a", 7, jobs.Keep), enqueue("b", 8, jobs.PushBack(0))}, ended{"a in slot 8", done}, ended{"old in slot 8", nil},
		},
		"push back after replace": {
			calls{enqueue("a", 7, jobs.Replace), enqueue("b", 8, jobs.PushBack(0))}, ended{"a in slot 8", done}, ended{"a in slot 8", replaced},
		},
		"push back after one that was later": {
			calls{pushBack(9, 0), enqueue("b", 8, jobs.PushBack(0))}, ended{"old in slot 9", done}, ended{"old in slot 9", nil},
		},
		"cancel after keep": {
			calls{enqueue("a", 8, jobs.Keep), cancel}, ended{"", []jobs.Outcome{jobs.OutcomeCancelled}}, ended{"", []jobs.Outcome{jobs.OutcomeCancelled}},
		},
		"reschedule after keep": {
			calls{enqueue("a", 8, jobs.Keep), reschedule}, ended{"old in slot 6", nil}, ended{"old in slot 6", nil},
		},
		"reschedule after push back": {
			calls{enqueue("a", 8, jobs.PushBack(0)), reschedule}, ended{"old in slot 6", nil}, ended{"old in slot 6", nil},
		},
		"reschedule after replace": {
			calls{enqueue("a", 8, jobs.Replace), reschedule}, ended{"a in slot 6", replaced}, ended{"a in slot 6", replaced},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && len(test.calls) > 1 && !strings.HasPrefix(name, "push back") {
				t.Skip("make test-all has what comes of several requests of other policies")
			}
			for outcome, want := range map[string]ended{"done": test.ends, "": test.goesOn} {
				w, row := due(t, true, true)
				w.exec("update prescient.future_job set payload = '\"old\"'")
				for _, call := range test.calls {
					if err := call(w); err != nil {
						t.Error(err)
					}
				}
				w.record(row.ID, outcome)
				if diff := gocmp.Diff(want, w.ended()); diff != "" {
					t.Errorf("outcome %q: %s", outcome, diff)
				}
				var left int
				if err := w.db.Get(&left, "select count(*) from prescient.future_job where (request).check_at is not null"); err != nil || left > 0 {
					t.Errorf("outcome %q: %d requests are left, %v", outcome, left, err)
				}
			}
		})
	}
}

// record records, as a runner does, that a check in slot 2 has ended its row or, with no outcome, asked for slot 5.
func (w *world) record(id int64, outcome string) {
	w.t.Helper()
	w.exec(`select prescient.record_row(row(
			$1, 2, 1, prescient.find_job('remind'), 'remind', $2, nullif($3, ''), 'next', case when $3 = '' then $4::timestamptz end,
			null, null, 0, 0, false, 'me', null, $5, null, null, null, null, null
		)::prescient.row_outcome)`, slot(2), id, outcome, slot(5), slot(2).Add(time.Minute))
}

func (w *world) ended() (e ended) {
	w.t.Helper()
	for _, j := range w.waiting() {
		n := int(j.NextCheckAt.Sub(slot(0)) / (15 * time.Minute))
		e.Waiting += fmt.Sprintf("%s in slot %d", slices.Concat(j.Payload)[1:len(j.Payload)-1], n)
	}
	history := w.history()
	slices.SortFunc(history, func(a, b admin.HistoryRow) int { return cmp.Compare(a.ID, b.ID) })
	for _, h := range history {
		e.History = append(e.History, h.Outcome)
	}
	return e
}

// A request that is refused must be refused where it is asked for: the run that honours it could not record the check.
func TestARequestIsRefusedAsAnEnqueueIs(t *testing.T) {
	t.Parallel()
	w, _ := due(t, true, true)
	for name, query := range map[string]string{
		"payload":   `select prescient.enqueue('remind', 'order', '1', check_at => now(), payload => jsonb_build_object('a', repeat('x', 1048577)))`,
		"group_key": `select prescient.enqueue('remind', 'order', '1', check_at => now(), group_key => repeat('x', 501))`,
		"check_at":  `select prescient.enqueue('remind', 'order', '1', check_at => 'infinity')`,
		"within":    `select prescient.enqueue('remind', 'order', '1', check_at => now(), within => '400 days')`,
	} {
		if _, err := w.db.ExecContext(t.Context(), query); err == nil {
			t.Errorf("%s: it was recorded", name)
		}
	}
}

func TestTheStoriesOfARequestAreTold(t *testing.T) {
	t.Parallel()
	w, row := due(t, true, true)
	tx := w.db.MustBegin()
	if err := jobs.SetActor(t.Context(), tx, "ann"); err != nil {
		t.Fatal(err)
	}
	for _, on := range []jobs.OnConflict{jobs.Keep, jobs.Keep, jobs.PushBack(0)} { // of these the first alone is a part of the story
		if _, err := w.client.Enqueue(t.Context(), tx, check("1", slot(8).Add(-time.Minute)), on); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	w.record(row.ID, "done")
	events, err := admin.New(w.client).Timeline(t.Context(), w.db, keyOf("1"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range events {
		got = append(got, fmt.Sprintf("%d %s slot %s for %s by %s", e.ID-row.ID, e.What, hour(e.Slot), hour(e.RequestedFor), e.Actor))
	}
	next := w.waiting()[0].ID - row.ID
	want := []string{
		"0 enqueued slot 12:30 for 12:30 by ",
		"0 recorded slot 12:30 for 13:59 by ann",
		"0 done slot 12:30 for - by ",
		fmt.Sprint(next, " enqueued slot 14:00 for 13:59 by ann"),
		fmt.Sprint(next, " honoured slot 12:30 for - by "),
		fmt.Sprint(next, " waiting slot 14:00 for - by "),
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var payload string
	if err := w.db.Get(&payload, "select (request).enqueued_actor from prescient.future_job_history"); err != nil || payload != "ann" {
		t.Errorf("history has the request of %q, %v", payload, err)
	}
}

func hour(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.Format("15:04")
}
