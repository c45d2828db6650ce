package schedule_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/grid"
)

// sameIDs compares two lists of ids as sets in which each is once.
func sameIDs(t *testing.T, want, got []string) {
	t.Helper()
	want, got = slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))
	if slices.Equal(want, got) {
		return
	}
	t.Errorf("%d ids, want %d", len(got), len(want))
	if len(want)+len(got) < 1000 {
		t.Error(cmp.Diff(want, got))
	}
}

func TestEveryInstantBetweenTwoSlotsIsAnEventAtTheSlotAfterIt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	spec := every("report")
	spec.Payload = json.RawMessage(`{"n": 1}`)
	w.create(spec)
	w.clock.Set(slot(1).Add(time.Second))
	if _, err := w.runner().Run(t.Context(), slot(1)); err != nil {
		t.Fatal(err)
	}
	at := noon.Add(5 * time.Minute)
	want := event.Event{
		ID: fmt.Sprintf("report-%d", at.Unix()), Source: "prescient:/" + w.text("select store from prescient.setting"), Type: schedule.EventType, Subject: "report",
		Time: at, PublishedAt: slot(1).Add(time.Second),
		Data: fmt.Appendf(nil, `{"id":"report-%[1]d","generated_at":%[1]d,"schedule_id":"report","payload":{"n":1}}`, at.Unix()),
	}
	got := w.published()
	if times(got) != "12:05 12:10 12:15" {
		t.Fatalf("published %s", times(got))
	}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Error(diff)
	}
	w.run(slot(2))
	if got := times(w.published()); got != "12:05 12:10 12:15 12:20 12:25 12:30" {
		t.Errorf("published %s", got)
	}
	s := w.get("report")
	if s.State != schedule.Active || !s.Next.Equal(noon.Add(35*time.Minute)) || !s.Slot.Equal(slot(3)) || s.Version != 1 {
		t.Errorf("%+v", s)
	}
}

func TestASlotWithoutAnInstantIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create(schedule.Spec{ID: "daily", Crontab: "7 3 * * *", Timezone: "Asia/Tokyo"}) // 18:07 UTC
	if result := w.run(slot(1)); result.Planned != 0 {
		t.Errorf("%+v", result)
	}
	if s := w.get("daily"); !s.Slot.Equal(slot(25)) || !s.Next.Equal(noon.Add(6*time.Hour+7*time.Minute)) {
		t.Errorf("%+v", s)
	}
}

// Four slots are missed, 1 to 4; it is caught up on in the fifth, which is the schedule's own too.
func TestWhatAnOutageBringsIsThePolicysToSay(t *testing.T) {
	t.Parallel()
	w := setup(t)
	tests := map[string]struct {
		spec    schedule.Spec
		want    string
		dropped int64
	}{
		"all":      {schedule.Spec{Crontab: "10 * * * *", Misfire: schedule.All}, "12:10 13:10", 0},
		"default":  {schedule.Spec{Crontab: "*/30 * * * *"}, "12:30 13:00", 0},
		"latest":   {schedule.Spec{Crontab: "*/10 * * * *", Misfire: schedule.Latest}, "13:00 13:10", 5},
		"skip":     {schedule.Spec{Crontab: "*/10 * * * *", Misfire: schedule.Skip}, "13:10", 6},
		"deadline": {schedule.Spec{Crontab: "*/10 * * * *", Deadline: 31 * time.Minute}, "12:40 12:50 13:00 13:10", 3},
		"too late": {schedule.Spec{Crontab: "*/10 * * * *", Deadline: 15 * time.Minute}, "13:10", 6},
		"all late": {schedule.Spec{Crontab: "*/10 * * * *", Deadline: 59 * time.Second}, "", 7},
		"both":     {schedule.Spec{Crontab: "*/10 * * * *", Deadline: 40 * time.Minute, Misfire: schedule.Latest}, "13:00 13:10", 5},
	}
	for id, test := range tests {
		test.spec.ID = id
		w.create(test.spec)
	}
	w.catchUp(slot(5).Add(time.Minute))
	got := map[string][]event.Event{}
	for _, e := range w.published() {
		got[e.Subject] = append(got[e.Subject], e)
	}
	for id, test := range tests {
		if times(got[id]) != test.want {
			t.Errorf("%s: published %q, want %q", id, times(got[id]), test.want)
		}
		if n := w.get(id).Dropped; n != test.dropped {
			t.Errorf("%s: %d dropped, want %d", id, n, test.dropped)
		}
	}
}

func TestTheTimelineDoesNotDrift(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clock.Set(noon.Add(3*time.Minute + 500*time.Millisecond))
	w.create(schedule.Spec{ID: "a", Crontab: "@every 40m"})
	w.create(schedule.Spec{ID: "b", Crontab: "@every 40m", Anchor: noon.Add(-time.Hour)})
	for n := 1; n < 5; n++ {
		w.catchUp(slot(3*n - 1).Add(time.Duration(n) * time.Minute)) // each slot late, by more each time
	}
	got := map[string]string{}
	for _, e := range w.published() {
		got[e.Subject] += e.Time.Format("15:04 ")
	}
	want := map[string]string{"a": "12:43 13:23 14:03 14:43 ", "b": "12:20 13:00 13:40 14:20 "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAnInstantThatFiresOnceEndsTheSchedule(t *testing.T) {
	t.Parallel()
	w := setup(t)
	at := noon.Add(20 * time.Minute)
	spec := schedule.Spec{ID: "once", Crontab: fmt.Sprintf("@at %d", at.Unix())}
	w.create(spec)
	w.run(slot(1))
	w.run(slot(2))
	w.run(slot(3))
	if got := times(w.published()); got != "12:20" {
		t.Errorf("published %q", got)
	}
	if s := w.get("once"); s.State != schedule.Ended || !s.Next.IsZero() {
		t.Errorf("%+v", s)
	}
	if n := w.count(`select count(*) from prescient.future_job_history where entity_key = 'once' and outcome = 'done'`); n != 1 {
		t.Errorf("%d rows ended as done", n)
	}
	// Another crontab brings it back to life; another payload does not.
	spec.Payload = json.RawMessage(`1`)
	if s := w.update(spec); s.State != schedule.Ended || s.Version != 2 {
		t.Errorf("%+v", s)
	}
	spec.Crontab = "@hourly"
	if s := w.update(spec); s.State != schedule.Active || !s.Next.Equal(noon.Add(time.Hour)) {
		t.Errorf("%+v", s)
	}
}

func TestSpreadPutsOffTheSlotAndNotTheNominalTime(t *testing.T) {
	t.Parallel()
	w := setup(t)
	schedules := 200
	if testing.Short() {
		schedules = 60
	}
	bySlot := map[string]int{}
	for i := range schedules {
		s := w.create(schedule.Spec{ID: fmt.Sprint(i), Crontab: "0 * * * *", Spread: time.Hour})
		// The same part as a check with a window has, of slots of a second.
		var late int
		err := w.db.Get(&late, `select date_part('epoch', prescient.pick_slot('epoch', 'epoch', 3600, 'epoch', '1 s', prescient.window_hash($1)) - 'epoch'::timestamptz)`, s.ID)
		if want := grid.Default.Ceil(noon.Add(time.Hour + time.Duration(late)*time.Second)); err != nil || !s.Slot.Equal(want) {
			t.Errorf("schedule %s waits for slot %s, want %s, %v", s.ID, s.Slot, want, err)
		}
		bySlot[s.Slot.Format("15:04")]++
		if !s.Next.Equal(noon.Add(time.Hour)) {
			t.Errorf("next is %s", s.Next)
		}
	}
	for _, at := range []string{"13:15", "13:30", "13:45", "14:00"} {
		if n := bySlot[at]; n < schedules*3/20 {
			t.Errorf("%d of %d are due at %s: %v", n, schedules, at, bySlot)
		}
	}
	for n := 1; n <= 8; n++ {
		w.run(slot(n))
	}
	for _, e := range w.published() {
		if !e.Time.Equal(noon.Add(time.Hour)) || e.PublishedAt.Before(e.Time) {
			t.Errorf("%+v", e)
		}
	}
	if n := len(w.published()); n != schedules {
		t.Errorf("%d events", n)
	}
	if n := w.count(`select coalesce(sum(dropped), 0) from prescient.schedule_state`); n != 0 {
		t.Errorf("%d dropped", n)
	}
}

// 31 March 2030: Berlin goes from 2:00 to 3:00 at 01:00 UTC. 27 October 2030: from 3:00 to 2:00 at
// 01:00 UTC.
func TestSummerTime(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from time.Time
		want map[string]string
	}{
		"begins": {
			time.Date(2030, time.March, 30, 23, 45, 0, 0, time.UTC),
			map[string]string{"fixed": "01:00 ", "elapsed": "00:00 00:30 01:00 01:30 02:00 "},
		},
		"ends": {
			time.Date(2030, time.October, 26, 23, 45, 0, 0, time.UTC),
			map[string]string{"fixed": "00:30 ", "elapsed": "00:00 00:30 01:00 01:30 02:00 "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.clock.Set(test.from)
			w.create(schedule.Spec{ID: "fixed", Crontab: "30 2 * * *", Timezone: "Europe/Berlin"})
			w.create(schedule.Spec{ID: "elapsed", Crontab: "CRON_TZ=Europe/Berlin */30 * * * *"})
			for n := 1; n <= 9; n++ {
				w.run(test.from.Add(time.Duration(n) * 15 * time.Minute))
			}
			got := map[string]string{}
			for _, e := range w.published() {
				got[e.Subject] += e.Time.Format("15:04 ")
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAWholeMonthOfOutageIsBounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create(schedule.Spec{ID: "minutely", Crontab: "* * * * *"})
	w.create(schedule.Spec{ID: "daily", Crontab: "0 13 * * *", Misfire: schedule.Latest})
	now := noon.AddDate(0, 0, 30)
	w.catchUp(now)
	got := map[string]int{}
	for _, e := range w.published() {
		got[e.Subject]++
	}
	const minutes = 30 * 24 * 60
	// 15 of the minutely ones are of the slot that has just begun.
	want := map[string]int{"minutely": schedule.MaxCatchUp + 15, "daily": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := w.get("minutely").Dropped; n != minutes-schedule.MaxCatchUp-15 {
		t.Errorf("%d dropped", n)
	}
	if n := w.get("daily").Dropped; n != 29 {
		t.Errorf("%d dropped", n)
	}
}

// A wider grid takes the waiting rows along. A narrower one leaves them where they wait, and what
// its slots before that would have published is missed.
func TestAnotherWidthRepeatsNothingAndLosesNothingThatThePolicyKeeps(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create(every("a"))
	w.create(schedule.Spec{ID: "skip", Crontab: "*/20 * * * *", Misfire: schedule.Skip})
	w.run(slot(1))
	w.setWidth(time.Hour)
	w.run(noon.Add(time.Hour))
	w.setWidth(5 * time.Minute)
	for n := 1; n <= 13; n++ {
		w.run(noon.Add(time.Hour + time.Duration(n)*5*time.Minute))
	}
	got := map[string]string{}
	for _, e := range w.published() {
		got[e.Subject] += e.Time.Format("15:04 ")
	}
	want := map[string]string{
		"a": "12:05 12:10 12:15 12:20 12:25 12:30 12:35 12:40 12:45 12:50 12:55 13:00 " +
			"13:05 13:10 13:15 13:20 13:25 13:30 13:35 13:40 13:45 13:50 13:55 14:00 14:05 ",
		"skip": "12:20 12:40 13:00 14:00 ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// The store was made before: the database rounds to the width of now.
	if s := w.create(schedule.Spec{ID: "new", Crontab: "23 * * * *"}); !s.Slot.Equal(noon.Add(145 * time.Minute)) {
		t.Errorf("%+v", s)
	}
}

func TestARowThatWasMovedByHandPublishesNothingEarly(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create(schedule.Spec{ID: "a", Crontab: "0 * * * *"})
	client, err := jobs.NewClient(t.Context(), w.db, jobs.Config{Now: w.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	key := jobs.Key{JobExec: schedule.JobExec, EntityName: schedule.EntityName, EntityKey: "a"}
	if _, _, err := client.Reschedule(t.Context(), jobs.OwnTx(w.db), key, slot(1)); err != nil {
		t.Fatal(err)
	}
	w.run(slot(1))
	if got := w.published(); len(got) != 0 {
		t.Errorf("published %s", times(got))
	}
	w.run(slot(4))
	if got := times(w.published()); got != "13:00" {
		t.Errorf("published %s", got)
	}
	if _, err := client.Cancel(t.Context(), jobs.OwnTx(w.db), key); err != nil {
		t.Fatal(err)
	}
	if s := w.get("a"); s.State != schedule.Ended {
		t.Errorf("%+v", s)
	}
}

func TestARowThatNoScheduleStandsBehindEndsAndABrokenOneIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, id := range []string{"gone", "paused", "broken", "no instant"} {
		w.create(every(id))
	}
	for _, query := range []string{
		`delete from prescient.schedule where id = 'gone'`,
		`update prescient.schedule set paused = true where id = 'paused'`,
		`update prescient.schedule set timezone = 'Europe/Atlantis' where id = 'broken'`,
		`update prescient.future_job set payload = null where entity_key = 'no instant'`,
	} {
		if _, err := w.db.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	result := w.run(slot(1))
	if result.Finished != 2 || result.Failed != 2 || len(w.published()) != 0 {
		t.Errorf("%+v, published %s", result, times(w.published()))
	}
	if s := w.get("broken"); !s.Slot.Equal(slot(2)) || s.ErrorCount != 1 {
		t.Errorf("%+v", s)
	}
}

func TestTheDeepestPayloadIsPublishedAndToldAsJSON(t *testing.T) {
	t.Parallel()
	w := setup(t)
	spec := every("deep")
	spec.Payload = json.RawMessage(strings.Repeat("[", 5000) + strings.Repeat("]", 5000))
	w.create(spec)
	w.run(slot(1))
	if _, err := json.Marshal(w.published()); err != nil || len(w.published()) != 3 {
		t.Errorf("%d events, %v", len(w.published()), err)
	}
}

// A row under another key would publish each event a second time, with the same id, and outlive its
// schedule.
// The table lets such values in no more. Each is the error of its own row.
func TestAScheduleThatCannotBeReadOrPublishedHarmsNoOther(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, id := range []string{"a-null", "b-line", "c-good", "d-good"} {
		w.create(every(id))
	}
	w.db.MustExec(`alter table prescient.schedule drop constraint schedule_exclude, drop constraint schedule_id`)
	w.db.MustExec(`update prescient.schedule set exclude = array['sat', null] where id = 'a-null'`)
	w.db.MustExec(`update prescient.schedule set id = E'b-line\n' where id = 'b-line'`)
	w.db.MustExec(`update prescient.future_job set entity_key = E'b-line\n' where entity_key = 'b-line'`)
	if result := w.run(slot(1)); result.Failed != 2 || result.Rescheduled != 2 {
		t.Errorf("%+v", result)
	}
	published := map[string]int{}
	for _, e := range w.published() {
		published[e.Subject]++
	}
	if diff := cmp.Diff(map[string]int{"c-good": 3, "d-good": 3}, published); diff != "" {
		t.Error(diff)
	}
	for id, want := range map[string]string{
		"a-null": "cannot convert nil to string", "b-line\n": "subject: must not contain a control character",
	} {
		var text string
		err := w.db.Get(&text, "select coalesce(last_error, '') from prescient.future_job where entity_key = $1", id)
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%q: %s, %v", id, text, err)
		}
	}
}

func TestARowThatStandsForNoSchedulePublishesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create(schedule.Spec{ID: "payroll", Crontab: "*/15 * * * *"})
	for _, twin := range []string{"'schedule', 'payroll', 'twin'", "'schedule', 'payroll', null", "'other', 'payroll', ''"} {
		w.db.MustExec(`insert into prescient.future_job (job, entity_name, entity_key, item_key, first_check_at, next_check_at, payload)
			values (prescient.ensure_job('schedule'), `+twin+`, $1, $1, '{"at": 1}')`, slot(1))
	}
	w.run(slot(1))
	if n := len(w.published()); n != 1 {
		t.Errorf("%d events, want one", n)
	}
	if n := w.count(`select count(*) from prescient.future_job where last_error like '%stands for no schedule%'`); n != 3 {
		t.Errorf("%d twins have an error that says so, want 3", n)
	}
}
