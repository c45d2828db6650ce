package schedule_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestWhatIsCreatedIsRead(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clock.Set(noon.Add(time.Minute))
	spec := schedule.Spec{
		ID: "a/b ü", Crontab: "0 9 * * *", Timezone: "Europe/Berlin", Payload: json.RawMessage(`{"b": 1, "a": [null]}`),
		Deadline: 90 * time.Minute, Spread: time.Hour, Misfire: schedule.Latest, Anchor: noon.AddDate(-1, 0, 0),
	}
	created := w.create(spec)
	if created.Version != 1 || created.State != schedule.Active || !created.Next.Equal(noon.Add(20*time.Hour)) || created.CreatedAt.IsZero() {
		t.Errorf("%+v", created)
	}
	spec.Payload = json.RawMessage(`{"a": [null], "b": 1}`)
	if diff := cmp.Diff(spec, w.get(spec.ID).Spec); diff != "" {
		t.Error(diff)
	}
	least := w.create(schedule.Spec{ID: "least", Crontab: "@every 90m"})
	want := schedule.Spec{ID: "least", Crontab: "@every 90m", Misfire: schedule.All, Anchor: noon.Add(time.Minute)}
	if diff := cmp.Diff(want, least.Spec); diff != "" {
		t.Error(diff)
	}
	if !least.Next.Equal(noon.Add(91 * time.Minute)) {
		t.Errorf("next is %s", least.Next)
	}
	paused := w.create(schedule.Spec{ID: "paused", Crontab: "@daily", Paused: true})
	if paused.State != schedule.Paused || !paused.Next.IsZero() || w.count(`select count(*) from prescient.future_job`) != 2 {
		t.Errorf("%+v", paused)
	}
}

func TestBadSchedulesAreRefusedByTheNameOfTheField(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for name, test := range map[string]struct {
		change func(*schedule.Spec)
		want   string
	}{
		"no id":            {func(s *schedule.Spec) { s.ID = "" }, "id"},
		"long id":          {func(s *schedule.Spec) { s.ID = strings.Repeat("x", 201) }, "id"},
		"line in id":       {func(s *schedule.Spec) { s.ID = "a\nb" }, "id"},
		"space at the end": {func(s *schedule.Spec) { s.ID = "a " }, "id"},
		"a dot":            {func(s *schedule.Spec) { s.ID = "." }, "id"},
		"two dots":         {func(s *schedule.Spec) { s.ID = ".." }, "id"},
		"no UTF-8":         {func(s *schedule.Spec) { s.ID = "\xff" }, "id"},
		"crontab":          {func(s *schedule.Spec) { s.Crontab = "61 * * * *" }, "crontab"},
		"never":            {func(s *schedule.Spec) { s.Crontab = "0 0 30 2 *" }, "crontab"},
		"never again":      {func(s *schedule.Spec) { s.Crontab = fmt.Sprintf("@at %d", noon.Unix()) }, "crontab"},
		"zone":             {func(s *schedule.Spec) { s.Timezone = "Mars/Olympus" }, "crontab"},
		"payload":          {func(s *schedule.Spec) { s.Payload = json.RawMessage(`{`) }, "payload"},
		"big payload":      {func(s *schedule.Spec) { s.Payload = json.RawMessage(`"` + strings.Repeat("x", 65536) + `"`) }, "payload"},
		"NUL in payload":   {func(s *schedule.Spec) { s.Payload = json.RawMessage(`"\u0000"`) }, "payload"},
		"half a surrogate": {func(s *schedule.Spec) { s.Payload = json.RawMessage(`"\ud800"`) }, "payload"},
		"deep payload": {func(s *schedule.Spec) {
			s.Payload = json.RawMessage(strings.Repeat("[", 5001) + strings.Repeat("]", 5001))
		}, "payload"},
		"huge number":   {func(s *schedule.Spec) { s.Payload = json.RawMessage(`1e999999`) }, "payload"},
		"deadline":      {func(s *schedule.Spec) { s.Deadline = -time.Second }, "deadline"},
		"half a second": {func(s *schedule.Spec) { s.Deadline = 500 * time.Millisecond }, "deadline"},
		"spread":        {func(s *schedule.Spec) { s.Spread = 25 * time.Hour }, "spread"},
		"misfire":       {func(s *schedule.Spec) { s.Misfire = "sometimes" }, "misfire"},
		"anchor":        {func(s *schedule.Spec) { s.Anchor = time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC) }, "anchor"},
		"several":       {func(s *schedule.Spec) { s.ID, s.Misfire, s.Spread = "", "x", -1 }, "id spread misfire"},
	} {
		spec := every("good")
		test.change(&spec)
		if _, err := w.store.Create(t.Context(), w.db, spec); fields(err) != test.want {
			t.Errorf("%s: %v names %q, want %q", name, err, fields(err), test.want)
		}
	}
	w.create(every("good"))
	bad := every("good")
	bad.Crontab = fmt.Sprintf("@at %d", noon.Unix())
	if _, err := w.store.Update(t.Context(), w.db, bad, schedule.AnyVersion); fields(err) != "crontab" {
		t.Errorf("an update to one that never fires: %v", err)
	}
	if n := w.count(`select count(*) from prescient.schedule`); n != 1 {
		t.Errorf("%d schedules", n)
	}
}

func TestAnIDIsTakenOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create(every("a"))
	if _, err := w.store.Create(t.Context(), w.db, every("a")); !errors.Is(err, schedule.ErrExists) {
		t.Errorf("got %v", err)
	}
	for name, list := range map[string][]schedule.Spec{
		"there already": {every("b"), every("a"), every("c")},
		"given twice":   {every("b"), every("c"), every("b")},
	} {
		_, err := w.store.CreateAll(t.Context(), w.db, slices.Values(list))
		if !errors.Is(err, schedule.ErrExists) || !strings.Contains(err.Error(), map[string]string{"there already": `"a"`, "given twice": `"b"`}[name]) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := w.count(`select count(*) from prescient.schedule`); n != 1 {
		t.Errorf("%d schedules", n)
	}
}

// deadlockOnce lets the first change that a trigger is for fail as by a deadlock.
func (w *world) deadlockOnce(trigger string) {
	w.t.Helper()
	pgtest.NotOnCitus(w.t, "it has no triggers on the tables of a distributed schema")
	w.db.MustExecContext(w.t.Context(), `
		create sequence tries;
		create function deadlock_once() returns trigger language plpgsql as $$
		begin
			if nextval('tries') = 1 then
				raise exception 'interrupted' using errcode = 'deadlock_detected';
			end if;
			return new;
		end $$;
		create trigger deadlock_once `+trigger+` execute function deadlock_once()`)
}

// An iterator may be good for one pass only: a second try would create what is left of it and call
// that success.
func TestAStreamThatTheServerInterruptsIsNotBegunAnew(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.deadlockOnce("before insert on prescient.schedule for each row when (new.id = '4000')")
	n := 0
	created, err := w.store.CreateAll(t.Context(), w.db, func(yield func(schedule.Spec) bool) {
		for n < 9000 && yield(every(fmt.Sprint(n))) {
			n++
		}
	})
	if !pg.IsRetryable(err) || created != 0 {
		t.Errorf("%d created, %v", created, err)
	}
	if n := w.count(`select count(*) from prescient.schedule`); n != 0 {
		t.Errorf("%d schedules", n)
	}
}

func TestARewindThatTheServerInterruptsIsRepeated(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create(every("a"))
	w.db.MustExecContext(t.Context(), "update prescient.schedule set updated_at = '2040-01-01'")
	w.deadlockOnce("before update on prescient.schedule for each row")
	if n, err := w.store.Rewind(t.Context(), w.db); err != nil || n != 1 {
		t.Errorf("%d rewound, %v", n, err)
	}
	if n := w.count(`select count(*) from prescient.schedule where updated_at = '2040-01-01'`); n != 0 {
		t.Error("the schedule was not rewound")
	}
}

func TestManyAreCreatedAsAStream(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const many = 12_345
	n, err := w.store.CreateAll(t.Context(), w.db, func(yield func(schedule.Spec) bool) {
		for i := range many {
			spec := every(fmt.Sprint(i))
			spec.Paused = i%5 == 0
			if !yield(spec) {
				return
			}
		}
	})
	if err != nil || n != many {
		t.Fatalf("%d, %v", n, err)
	}
	if n := w.count(`select count(*) from prescient.schedule`); n != many {
		t.Errorf("%d schedules", n)
	}
	if n := w.count(`select count(*) from prescient.future_job where next_check_at = $1`, slot(1)); n != many/5*4 {
		t.Errorf("%d wait", n)
	}
	bad := []schedule.Spec{every("good"), {ID: "bad", Crontab: "often"}, {ID: "worse"}}
	if _, err := w.store.CreateAll(t.Context(), w.db, slices.Values(bad)); err == nil || !strings.Contains(err.Error(), `schedule "worse"`) || fields(err) != "crontab crontab" {
		t.Errorf("got %v", err)
	}
}

func TestListPagesThroughIDsByteByByte(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, id := range []string{"a", "B", "a/2", "a/1", "ä", "zz", "a/10"} {
		spec := every(id)
		spec.Paused = id == "zz"
		w.create(spec)
	}
	if _, err := w.db.ExecContext(t.Context(), `delete from prescient.future_job where entity_key = 'B'`); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		filter schedule.Filter
		want   string
	}{
		"all":       {schedule.Filter{}, "B a a/1 a/10 a/2 zz ä"},
		"page":      {schedule.Filter{Limit: 2}, "B a"},
		"next page": {schedule.Filter{Limit: 2, After: "a"}, "a/1 a/10"},
		"prefix":    {schedule.Filter{Prefix: "a/"}, "a/1 a/10 a/2"},
		"pattern":   {schedule.Filter{Prefix: "%"}, ""},
		"both":      {schedule.Filter{Prefix: "a", After: "a/10"}, "a/2"},
		"active":    {schedule.Filter{State: schedule.Active, Prefix: "a"}, "a a/1 a/10 a/2"},
		"paused":    {schedule.Filter{State: schedule.Paused}, "zz"},
		"ended":     {schedule.Filter{State: schedule.Ended}, "B"},
	} {
		list, err := seq.Collect(w.store.List(t.Context(), w.db, test.filter))
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, s := range list {
			ids = append(ids, s.ID)
		}
		if got := strings.Join(ids, " "); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestUnknownSchedulesAndOldVersions(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ctx := t.Context()
	calls := map[string]func(id string, version int) error{
		"update": func(id string, version int) error {
			spec := every(id)
			spec.Payload = json.RawMessage(fmt.Sprint(version))
			_, err := w.store.Update(ctx, w.db, spec, version)
			return err
		},
		"pause":  func(id string, version int) error { _, err := w.store.Pause(ctx, w.db, id, version); return err },
		"resume": func(id string, version int) error { _, err := w.store.Resume(ctx, w.db, id, version); return err },
		"delete": func(id string, version int) error { return w.store.Delete(ctx, w.db, id, version) },
	}
	w.create(every("a"))
	for name, call := range calls {
		if err := call("nobody", schedule.AnyVersion); !errors.Is(err, schedule.ErrNotFound) {
			t.Errorf("%s of nobody: %v", name, err)
		}
		if err := call("a", 2); !errors.Is(err, schedule.ErrVersion) {
			t.Errorf("%s of version 2: %v", name, err)
		}
	}
	if _, err := w.store.Get(ctx, w.db, "nobody"); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
	for i, name := range []string{"update", "pause", "resume", "delete"} {
		if err := calls[name]("a", i+1); err != nil {
			t.Error(err)
		}
	}
	if n := w.count(`select (select count(*) from prescient.schedule) + (select count(*) from prescient.future_job)`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

func TestAnEditNeverLooksLikeAMissedRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, id := range []string{"crontab", "zone", "spread", "anchor", "payload", "nothing", "resumed", "still paused"} {
		w.create(schedule.Spec{ID: id, Crontab: "*/5 * * * *", Payload: json.RawMessage(`{"n": 1.0}`)})
	}
	edit := func(id string, change func(*schedule.Spec)) schedule.Schedule {
		spec := w.get(id).Spec
		change(&spec)
		return w.update(spec)
	}
	edit("still paused", func(s *schedule.Spec) { s.Paused = true })
	if _, err := w.store.Pause(t.Context(), w.db, "resumed", schedule.AnyVersion); err != nil {
		t.Fatal(err)
	}
	w.clock.Set(slot(3).Add(time.Minute)) // 12:46; nothing has run since noon
	edit("crontab", func(s *schedule.Spec) { s.Crontab = "*/10 * * * *" })
	edit("zone", func(s *schedule.Spec) { s.Timezone = "Asia/Kolkata" })
	edit("spread", func(s *schedule.Spec) { s.Spread = 2 * time.Second })
	edit("anchor", func(s *schedule.Spec) { s.Anchor = noon.Add(-time.Hour) })
	edit("still paused", func(s *schedule.Spec) { s.Crontab = "*/10 * * * *" })
	edit("payload", func(s *schedule.Spec) {
		s.Payload, s.Deadline, s.Misfire = json.RawMessage(`2`), 9*time.Hour, schedule.Skip
	})
	edit("nothing", func(s *schedule.Spec) { s.Payload, s.Anchor = json.RawMessage(`{ "n": 1.0 }`), time.Time{} })
	if _, err := w.store.Resume(t.Context(), w.db, "resumed", schedule.AnyVersion); err != nil {
		t.Fatal(err)
	}
	type view struct {
		State schedule.State
		Next  string
		V     int
	}
	want := map[string]view{
		"crontab": {schedule.Active, "12:50", 2}, "zone": {schedule.Active, "12:50", 2}, "spread": {schedule.Active, "12:50", 2},
		"anchor": {schedule.Active, "12:50", 2}, "payload": {schedule.Active, "12:05", 2}, "nothing": {schedule.Active, "12:05", 1},
		"resumed": {schedule.Active, "12:50", 3}, "still paused": {schedule.Paused, "00:00", 3},
	}
	got := map[string]view{}
	list, err := seq.Collect(w.store.List(t.Context(), w.db, schedule.Filter{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		got[s.ID] = view{s.State, s.Next.Format("15:04"), s.Version}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	w.catchUp(slot(4).Add(time.Minute))
	for id, want := range map[string]int64{"crontab": 9, "zone": 9, "spread": 9, "resumed": 0, "payload": 9, "nothing": 0} {
		if n := w.get(id).Dropped; n != want {
			t.Errorf("%s: %d dropped, want %d", id, n, want)
		}
	}
	for _, e := range w.published() {
		if e.Subject != "nothing" && e.Time.Before(slot(3)) {
			t.Errorf("%s was published", e.ID)
		}
	}
}

func TestWhatATransactionDoesIsUndoneWithIt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ctx := t.Context()
	w.create(every("old"))
	before := w.get("old")
	tx := w.db.MustBegin()
	if _, err := w.store.Create(ctx, tx, every("new")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Update(ctx, tx, schedule.Spec{ID: "old", Crontab: "@daily"}, 1); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Delete(ctx, tx, "new", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Create(ctx, tx, every("newer")); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, w.get("old")); diff != "" {
		t.Error(diff)
	}
	if n := w.count(`select count(*) from prescient.future_job`); n != 1 {
		t.Errorf("%d rows wait", n)
	}
}

func TestPreviewYieldsInstantsWithTheirSlots(t *testing.T) {
	t.Parallel()
	instants, err := schedule.Preview(every("x"), grid.Default, noon, noon.Add(15*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for at, slot := range instants {
		got = append(got, at.Format("15:04")+" "+slot.Format("15:04"))
	}
	if diff := cmp.Diff([]string{"12:00 12:00", "12:05 12:15", "12:10 12:15"}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := schedule.Preview(schedule.Spec{Crontab: "x"}, grid.Default, noon, noon); fields(err) != "crontab" {
		t.Errorf("got %v", err)
	}
}

// With array_nulls = off the server reads NULL in the text of an array as that text.
func TestASchedulesBoundsAreReadWhateverArrayNullsIs(t *testing.T) {
	t.Parallel()
	w := setup(t)
	db, err := pgsql.Open(t.Context(), w.url, pgsql.Param("array_nulls", "off"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	w.db = db
	spec := w.create(schedule.Spec{ID: "a", Crontab: "@daily"}).Spec
	if !spec.Start.IsZero() || !spec.End.IsZero() {
		t.Errorf("without bounds: from %s to %s", spec.Start, spec.End)
	}
	spec.Start = slot(8)
	if _, err := w.store.Update(t.Context(), w.db, spec, 0); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(spec, w.get("a").Spec); diff != "" {
		t.Error(diff)
	}
}
