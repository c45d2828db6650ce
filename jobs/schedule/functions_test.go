package schedule_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/grid"
)

// set calls set_schedule, and returns what it did.
func (w *world) set(args string) (action string) {
	w.t.Helper()
	if err := w.db.GetContext(w.t.Context(), &action, "select prescient.set_schedule("+args+")"); err != nil {
		w.t.Fatal(err)
	}
	return action
}

// changed calls a function twice, and returns how many of the calls changed something.
func (w *world) changed(call string) (n int) {
	w.t.Helper()
	for range 2 {
		var changed bool
		if err := w.db.GetContext(w.t.Context(), &changed, "select prescient."+call); err != nil {
			w.t.Fatal(err)
		}
		if changed {
			n++
		}
	}
	return n
}

// runNext runs the slot for which the row of a schedule waits, by the clock of the database.
func (w *world) runNext(id string) time.Time {
	w.t.Helper()
	var at time.Time
	if err := w.db.GetContext(w.t.Context(), &at, "select next_check_at from prescient.future_job where entity_key = $1", id); err != nil {
		w.t.Fatal(err)
	}
	w.run(at.UTC())
	return at.UTC()
}

func TestSQLCreatesASchedule(t *testing.T) {
	t.Parallel()
	w := setup(t)
	before := time.Now().UTC()
	if action := w.set(`'minutely', '* * * * *', payload => '{"n": 1}'`); action != "created" {
		t.Errorf("it was %s", action)
	}
	if s := w.get("minutely"); s.State != schedule.Active || s.Next.Before(before) || s.Next.After(before.Add(2*time.Minute)) {
		t.Errorf("it waits for %s", s.Next)
	}
	ran := w.runNext("minutely")
	events := w.published()
	if want := ran.Sub(before.Truncate(time.Minute)) / time.Minute; len(events) != int(want) && len(events) != int(want)-1 {
		t.Errorf("%d events from %s to %s: %s", len(events), before, ran, times(events))
	}
	for _, e := range events {
		if e.Time.Before(before.Truncate(time.Second)) || e.Time.After(ran) || !strings.Contains(string(e.Data), `"n":1`) {
			t.Errorf("an event of %s: %s", e.Time, e.Data)
		}
	}
	s := w.get("minutely")
	if s.Last != ran || s.Next != ran.Add(time.Minute) || s.Version != 1 {
		t.Errorf("%+v", s)
	}
}

func TestSQLChangesPausesAndDropsASchedule(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.set(`'a', '* * * * *', max_runs => 1000`)
	w.runNext("a")
	s := w.get("a")
	if s.Runs == 0 {
		t.Fatalf("%+v", s)
	}
	if action := w.set(`'a', '* * * * *', max_runs => 1000`); action != "unchanged" {
		t.Errorf("it was %s", action)
	}
	if action := w.set(`'a', '* * * * *', max_runs => 1000, payload => '2'`); action != "updated" {
		t.Errorf("it was %s", action)
	}
	if now := w.get("a"); now.Next != s.Next || now.Version != 2 || string(now.Payload) != "2" {
		t.Errorf("another payload moves the instant: %+v", now)
	}
	if action := w.set(`'a', '@hourly', max_runs => 1000, paused => true`); action != "updated" {
		t.Errorf("it was %s", action)
	}
	if now := w.get("a"); now.State != schedule.Paused || now.Runs != s.Runs || now.Last != s.Last || now.Crontab != "@hourly" {
		t.Errorf("%+v", now)
	}
	if n := w.changed("pause_schedule('a', false)"); n != 1 {
		t.Errorf("%d calls ended the pause", n)
	}
	if now := w.get("a"); now.State != schedule.Active || now.Runs != s.Runs || now.Last != s.Last || now.Next.Minute() != 0 {
		t.Errorf("%+v", now)
	}
	if n := w.changed("drop_schedule('a')"); n != 1 {
		t.Errorf("%d calls dropped it", n)
	}
	if n := w.count("select (select count(*) from prescient.future_job) + (select count(*) from prescient.schedule_state)"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	if _, err := w.db.ExecContext(t.Context(), "select prescient.pause_schedule('a')"); err == nil || !strings.Contains(err.Error(), "there is no schedule 'a'") {
		t.Errorf("a pause of none: %v", err)
	}
}

func TestACrontabOfSQLThatCannotBeReadIsTheErrorOfItsFirstCheck(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.set(`'bad', '61 * * * *'`)
	w.set(`'never', '@hourly', ends_at => '2020-01-01'`)
	w.runNext("bad")
	if s := w.get("bad"); s.ErrorCount != 1 || !strings.Contains(s.LastError, "61") {
		t.Errorf("%+v", s)
	}
	if s := w.get("never"); s.State != schedule.Ended {
		t.Errorf("%+v", s)
	}
	if action := w.set(`'bad', '0 * * * *'`); action != "updated" {
		t.Errorf("it was %s", action)
	}
	if s := w.get("bad"); s.ErrorCount != 0 || s.State != schedule.Active {
		t.Errorf("%+v", s)
	}
}

// The row waits with what the one before it knew, though Go finds no instant for it.
func TestTheRunsOfAScheduleOutliveASpecOfSQLWithoutAnInstant(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]string{
		"a crontab that cannot be read": `'a', '61 * * * *', max_runs => 1000`,
		"an end in the past":            `'a', '* * * * *', max_runs => 1000, ends_at => '2020-01-01'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.set(`'a', '* * * * *', max_runs => 1000`)
			w.runNext("a")
			was := w.get("a")
			w.set(args)
			want := func(s schedule.Schedule, state schedule.State) {
				t.Helper()
				if was.Runs == 0 || s.Runs != was.Runs || s.Last != was.Last || s.State != state {
					t.Errorf("%s, %d runs, the last at %s; want %s, %d, %s", s.State, s.Runs, s.Last, state, was.Runs, was.Last)
				}
			}
			want(w.get("a"), schedule.Active)
			paused, err := w.store.Pause(t.Context(), w.db, "a", schedule.AnyVersion)
			if err != nil {
				t.Fatal(err)
			}
			want(paused, schedule.Paused)
			w.set(args)
			want(w.update(was.Spec), schedule.Active)
		})
	}
}

// A mistake is named, with what to write instead, and changes nothing.
func TestSQLNamesWhatIsWrongWithASchedule(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.set(`'a', '@hourly'`)
	for args, want := range map[string]string{
		`'', '@hourly'`:               `id is ''; it must have 1 to 200 bytes`,
		`' ', '@hourly'`:              `id is ' '; it must have 1 to 200 bytes of printable text, without a space at its ends`,
		`E'report-42\n', '@hourly'`:   `id is 'report-42`,
		`E'a\u0085b', '@hourly'`:      `id is 'a`,
		`'..', '@hourly'`:             `id is '..'; it must have 1 to 200 bytes of printable text`,
		`null, '@hourly'`:             `id is null; it must have 1 to 200 bytes`,
		`repeat('a', 201), '@hourly'`: `id is 'aaaaaaaaaa`,
		`'a', null`:                   `crontab is null; it must have five fields`,
		`'a', ''`:                     `crontab is ''; it must have five fields`,
		`'a', 'hourly'`:               `crontab is 'hourly'; it must have five fields`,
		`'a', '* * * *'`:              `crontab is '* * * *'; it must have five fields`,
		`'a', '@hourly', timezone => 'Europe/Berl'`:                                                  `timezone is 'Europe/Berl'; it must be a time zone that the server knows`,
		`'a', '@hourly', timezone => null`:                                                           `timezone is null; it must be a time zone that the server knows`,
		`'a', '@hourly', timezone => 'utc'`:                                                          `timezone is 'utc'; it must be a time zone that the server knows, by its exact name`,
		`'a', '@hourly', timezone => 'europe/berlin'`:                                                `timezone is 'europe/berlin'; it must be a time zone`,
		`'a', '@hourly', timezone => 'posix/Europe/Berlin'`:                                          `timezone is 'posix/Europe/Berlin'; it must be a time zone`,
		`'a', '@hourly', timezone => 'PST'`:                                                          `timezone is 'PST'; it must be a time zone`,
		`'a', '@hourly', timezone => 'UTC+3'`:                                                        `timezone is 'UTC+3'; it must be a time zone`,
		`'a', '@hourly', timezone => '5'`:                                                            `timezone is '5'; it must be a time zone`,
		`'a', '@hourly', timezone => $$interval 'soon'$$`:                                            `timezone is 'interval ''soon`,
		`'a', '@hourly', misfire => 'never'`:                                                         `misfire is 'never'; it must be all, latest or skip`,
		`'a', '@hourly', misfire => null`:                                                            `misfire is null; it must be all, latest or skip`,
		`'a', '@hourly', spread => '-1 hour'`:                                                        `spread is '-01:00:00'; it must be from 0 to 24 hours`,
		`'a', '@hourly', spread => '25 hours'`:                                                       `spread is '25:00:00'; it must be from 0 to 24 hours`,
		`'a', '@hourly', deadline => '0'`:                                                            `deadline is '00:00:00'; it must be from 1 second to 100 years`,
		`'a', '@hourly', deadline => '1000 years'`:                                                   `deadline is '1000 years'; it must be from 1 second to 100 years`,
		`'a', '@hourly', exclude => array['sat', null]`:                                              `exclude is '{sat,NULL}'; it must be one list without nulls`,
		`'a', '@hourly', exclude => array[array['sat'], array[null]]`:                                `exclude is '{{sat},{NULL}}'; it must be one list without nulls`,
		`'a', '@hourly', exclude => '[0:0]={sat}'`:                                                   `exclude is '[0:0]={sat}'; it must be one list without nulls`,
		`'a', '@hourly', exclude => array_fill('sat'::text, array[101])`:                             `exclude is '{sat,sat`,
		`'a', '@hourly', starts_at => '2030-03-01Z', ends_at => '2030-03-01Z'`:                       `ends_at is '2030`,
		`'a', '@hourly', starts_at => '2030-03-01 00:00:00.2Z', ends_at => '2030-03-01 00:00:00.7Z'`: `ends_at is '2030`,
		`'a', '@hourly', exclude => array['sat', repeat('s', 2001)]`:                                 `exclude is '{sat,sss`,
		`'a', '@hourly', exclude => array[E'sat\nsun']`:                                              `exclude is '{"sat`,
		`'a', '@hourly', max_runs => 0`:                                                              `max_runs is '0'; it must be positive`,
		`'a', '@hourly', starts_at => 'infinity'`:                                                    `starts_at is 'infinity'; it must be from 1970 to 9999`,
		`'a', '@hourly', ends_at => '-infinity'`:                                                     `ends_at is '-infinity'; it must be from 1970 to 9999`,
		`'a', '@hourly', payload => to_jsonb(repeat('a', 1048576))`:                                  `payload is '"aaaaaaa`,
		`'a', '@hourly', sql => 'select 1', notify => 'ops'`:                                         `notify is 'ops'; it must not stand beside sql or job_exec`,
		`'a', '@hourly', sql => 'select 1', payload => '1'`:                                          `payload is '1'; it must not stand beside sql`,
		`'a', '@hourly', role => 'nosuch'`:                                                           `role is 'nosuch'; it must stand beside sql`,
		`'a', '@hourly', sql => 'select 1', role => 'nosuch'`:                                        `role is 'nosuch'; it must be a role that exists`,
		`'a', '@hourly', timeout => '1 minute'`:                                                      `timeout is '00:01:00'; it must stand beside sql`,
		`'a', '@hourly', sql => 'select 1', timeout => '2 hours'`:                                    `timeout is '02:00:00'; it must be from 1 second to 1 hour`,
		`'a', '@hourly', notify => 'Ops'`:                                                            `notify is 'Ops'; it must be the name of a receiver`,
		`'a', '@hourly', text => 'hello'`:                                                            `text is 'hello'; it must stand beside notify`,
		`'a', '@hourly', job_exec => ''`:                                                             `job_exec is ''; it must have 1 to 200 bytes`,
	} {
		_, err := w.db.ExecContext(t.Context(), "select prescient.set_schedule("+args+")")
		wrong, is := errors.AsType[*pq.Error](err)
		if !is || !strings.HasPrefix(wrong.Message, want) || wrong.Hint == "" ||
			wrong.Code != pqerror.InvalidParameterValue && wrong.Code != pqerror.NullValueNotAllowed {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
	if s := w.get("a"); s.Version != 1 || s.Crontab != "@hourly" {
		t.Errorf("%+v", s)
	}
}

func TestSQLTakesATimeZoneByItsNameAndKeepsThatOfTheCaller(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var zones []string
	err := w.db.Select(&zones, `
		select name from pg_timezone_names where name in ('UTC', 'Europe/Berlin', 'Etc/GMT+3', 'EST5EDT', 'GMT0', 'America/Argentina/Buenos_Aires')`)
	if err != nil || len(zones) < 3 {
		t.Fatal(zones, err)
	}
	for _, zone := range zones {
		var of string
		tx := w.db.MustBegin()
		tx.MustExec("set local timezone = 'Asia/Tokyo'")
		_, err := tx.Exec("select prescient.set_schedule('a', '@hourly', timezone => $1)", zone)
		if err == nil {
			err = tx.Get(&of, "show timezone")
		}
		if err := errors.Join(err, tx.Commit()); err != nil || of != "Asia/Tokyo" {
			t.Errorf("%s: the zone of the caller is %s, %v", zone, of, err)
		}
		if _, err := schedule.Preview(w.get("a").Spec, grid.Default, noon, noon); err != nil {
			t.Errorf("%s: %v", zone, err)
		}
	}
}

// Go refuses a fraction, and would then refuse each change of the schedule.
func TestSQLRoundsBoundsUpToWholeSeconds(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const args = `'sale', '@every 1h', starts_at => '2030-03-02 00:00:00.25+00', ends_at => '2030-04-01 00:00:00.000001+00'`
	for _, want := range []string{"created", "unchanged"} {
		if action := w.set(args); action != want {
			t.Errorf("it was %s, want %s", action, want)
		}
	}
	s := w.get("sale")
	start, end := time.Date(2030, time.March, 2, 0, 0, 1, 0, time.UTC), time.Date(2030, time.April, 1, 0, 0, 1, 0, time.UTC)
	if !s.Start.Equal(start) || !s.End.Equal(end) || !s.Anchor.Equal(start) {
		t.Errorf("from %s to %s, anchor %s", s.Start, s.End, s.Anchor)
	}
	if _, err := w.db.ExecContext(t.Context(), "update prescient.schedule set anchor = (anchor at time zone 'UTC' + interval '0.75 seconds') at time zone 'UTC'"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"updated", "unchanged"} {
		if action := w.set(args); action != want {
			t.Errorf("with another anchor it was %s, want %s", action, want)
		}
	}
	if s := w.get("sale"); !s.Anchor.Equal(start) {
		t.Errorf("the anchor is %s", s.Anchor)
	}
	if _, err := w.store.Pause(t.Context(), w.db, "sale", schedule.AnyVersion); err != nil {
		t.Error(err)
	}
	if _, err := w.store.Resume(t.Context(), w.db, "sale", schedule.AnyVersion); err != nil {
		t.Error(err)
	}
	spec := w.get("sale").Spec
	spec.Payload = []byte("1")
	if done, err := w.store.Apply(t.Context(), w.db, given(spec), schedule.ApplyOptions{}); err != nil || done.Updated != 1 {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestGoChangesAScheduleWhoseIDOnlySQLTakes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const id = "a\u00a0b"
	w.set(`E'a\u00a0b', '@hourly'`)
	for _, change := range []func() error{
		func() error { return errOf(w.store.Pause(t.Context(), w.db, id, schedule.AnyVersion)) },
		func() error { return errOf(w.store.Resume(t.Context(), w.db, id, schedule.AnyVersion)) },
		func() error {
			spec := w.get(id).Spec
			spec.Crontab = "@daily"
			return errOf(w.store.Update(t.Context(), w.db, spec, schedule.AnyVersion))
		},
		func() error {
			spec := w.get(id).Spec
			spec.Crontab = "@weekly"
			return errOf(w.store.Apply(t.Context(), w.db, given(spec), schedule.ApplyOptions{}))
		},
		func() error {
			return w.store.ChangeAll(t.Context(), w.db, []schedule.Change{{Action: schedule.Update, Spec: w.get(id).Spec}})
		},
		func() error {
			return w.store.ChangeAll(t.Context(), w.db, []schedule.Change{{Action: schedule.Delete, Spec: schedule.Spec{ID: id}}})
		},
	} {
		if err := change(); err != nil {
			t.Error(err)
		}
	}
	if n := w.count("select (select count(*) from prescient.future_job) + (select count(*) from prescient.schedule)"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	if _, err := w.store.Create(t.Context(), w.db, every(id)); fields(err) != "id" {
		t.Errorf("Go creates it: %v", err)
	}
}

func errOf[T any](_ T, err error) error { return err }

// As in Go: see TestWithoutALimitNoRunsAreCountedAndALaterLimitBeginsAnew.
func TestSQLCountsNoRunsWithoutALimitAndALaterLimitBeginsAnew(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ limit, paused string }{
		"waiting": {"max_runs => 1000", "paused => false"}, "paused": {"max_runs => 1000", "paused => true"},
		"ended": {"max_runs => 1", "paused => false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.set(`'a', '* * * * *', ` + test.limit)
			w.runNext("a")
			runs := w.get("a").Runs
			w.set(`'a', '* * * * *', payload => '1', ` + test.limit + ", " + test.paused)
			if s := w.get("a"); s.Runs == 0 || s.Runs != runs {
				t.Errorf("%d runs, %d before", s.Runs, runs)
			}
			w.set(`'a', '* * * * *', ` + test.paused)
			if s := w.get("a"); s.Runs != 0 || s.Last.IsZero() {
				t.Errorf("%d runs without a limit, last %s", s.Runs, s.Last)
			}
			w.set(`'a', '* * * * *', ` + test.limit)
			w.set(`'a', '* * * * *', paused => false, ` + test.limit)
			if s := w.get("a"); s.Runs != 0 || s.State != schedule.Active {
				t.Errorf("%d runs of a limit that is new, %s", s.Runs, s.State)
			}
		})
	}
}

// Go and SQL may change one schedule in turn.
func TestGoChangesAScheduleOfSQLAndSQLOneOfGo(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.set(`'a', '@hourly', sql => 'select 1'`)
	spec := w.get("a").Spec
	if spec.Act.SQL != "select 1" || spec.Misfire != schedule.All {
		t.Errorf("%+v", spec)
	}
	spec.Crontab = "@daily"
	if s := w.update(spec); s.Version != 2 || s.State != schedule.Active {
		t.Errorf("%+v", s)
	}
	if action := w.set(`'a', '@daily', sql => 'select 1'`); action != "unchanged" {
		t.Errorf("it was %s", action)
	}
	if action := w.set(`'a', '@daily', job_exec => 'stock.check'`); action != "updated" {
		t.Errorf("it was %s", action)
	}
	if s := w.get("a"); s.Act.Job != "stock.check" || s.Act.SQL != "" || s.Version != 3 {
		t.Errorf("%+v", s)
	}
}
