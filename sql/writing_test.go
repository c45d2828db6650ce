package sql_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestPlainSQLWritesChecksWithDefaults(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const waiting = "select name || ' ' || entity_key || ' ' || " + "to_char(next_check_at at time zone 'UTC', 'HH24:MI') from prescient.future_job join prescient.job using (job) order by id"
	for _, step := range []struct{ query, want string }{
		{"select action from prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01 12:05:00Z')", "inserted"},
		{"select action from prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01 18:05:00Z')", "kept"},
		{"select action from prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01 12:20:00Z', on_conflict => 'push_back')", "pushed_back"},
		{"select action from prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01 12:20:00Z', on_conflict => 'replace')", "replaced"},
		{"select action from prescient.enqueue('remind', 'order', '1', item_key => 'b', check_at => '2030-03-01 12:05:00Z', group_key => 'g', payload => '{\"a\": 1}')", "inserted"},
		{"select action from prescient.enqueue('remind', 'order', '1', item_key => null, check_at => '2030-03-01 12:05:00Z', on_conflict => 'error')", "inserted"},
		{"select action from prescient.enqueue('remind', 'order', '1', item_key => null, check_at => '2030-03-01 12:05:00Z', on_conflict => 'error')", "inserted"},
		{"select " + utc("prescient.reschedule('remind', 'order', '1', check_at => '2030-03-01 14:01:00Z')"), "2030-03-01 14:15:00"},
		{"select " + utc("prescient.push_back('remind', 'order', '1', check_at => '2030-03-01 14:16:00Z')"), "2030-03-01 14:30:00"},
		{"select " + utc("prescient.push_back('remind', 'order', '1', check_at => '2030-03-01 13:00:00Z')"), "2030-03-01 14:30:00"},
		{"select " + utc("prescient.push_back('remind', 'order', '1', check_at => '2030-03-05 13:00:00Z', max_wait => '1 day')"), "2030-03-02 12:30:00"},
		{"select coalesce(" + utc("prescient.push_back('remind', 'order', '2', check_at => '2030-03-05 13:00:00Z')") + ", 'none')", "none"},
		{"select coalesce(" + utc("prescient.reschedule('remind', 'order', '1', item_key => 'nope', check_at => '2030-03-05 13:00:00Z')") + ", 'none')", "none"},
		{"select prescient.cancel('remind', 'order', '1')::text", "true"},
		{"select prescient.cancel('remind', 'order', '1')::text", "false"},
		{"select prescient.cancel('remind', 'order', '1', 'b')::text", "true"},
		{"select prescient.cancel('remind', 'order', '1', null)::text", "false"},
		{"select prescient.cancel_entity('order', '1')::text", "0"},
		{"select count(*)::text from prescient.future_job where item_key is null", "2"},
		{"select string_agg(outcome, ' ' order by finished_at) from prescient.future_job_history", "replaced cancelled cancelled"},
	} {
		if got := get[string](t, db, step.query); got != step.want {
			t.Errorf("%s\n= %s, want %s (waiting: %v)", step.query, got, step.want, list(t, db, waiting))
		}
	}
}

func TestPlainSQLGetsNothingIntoThePastNorOffTheRules(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "select prescient.enqueue('remind', 'order', 'x', check_at => '2030-03-01 12:00:00Z')")
	before := dump(t, db, "prescient")
	for query, code := range map[string]pqerror.Code{
		"select prescient.enqueue('remind', 'order', '1', check_at => null)":                                                                                         pqerror.NullValueNotAllowed,
		"select prescient.enqueue('remind', 'order', '1', check_at => 'infinity')":                                                                                   pqerror.CheckViolation,
		"select prescient.enqueue('remind', 'order', '1', check_at => '9999-12-31 00:00:01Z')":                                                                       pqerror.CheckViolation,
		"select prescient.enqueue('', 'order', '1', check_at => '2030-03-01')":                                                                                       pqerror.CheckViolation,
		"select prescient.enqueue(null, 'order', '1', check_at => '2030-03-01')":                                                                                     pqerror.NullValueNotAllowed,
		"select prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01', on_conflict => 'drop')":                                                          pqerror.InvalidParameterValue,
		"select prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01', on_conflict => null)":                                                            pqerror.InvalidParameterValue,
		"select prescient.enqueue('remind', 'order', 'x', check_at => '2030-03-01', on_conflict => 'error')":                                                         pqerror.UniqueViolation,
		"select prescient.reschedule('remind', 'order', 'x', check_at => null)":                                                                                      pqerror.NullValueNotAllowed,
		"select prescient.reschedule('remind', 'order', 'x', check_at => 'infinity')":                                                                                pqerror.CheckViolation,
		"select prescient.push_back('remind', 'order', 'x', check_at => null)":                                                                                       pqerror.NullValueNotAllowed,
		"select prescient.push_back('remind', 'order', 'x', check_at => null, max_wait => '1 day')":                                                                  pqerror.NullValueNotAllowed,
		"select prescient.push_back('remind', 'order', 'x', check_at => 'infinity')":                                                                                 pqerror.CheckViolation,
		"select prescient.enqueue_many('{remind}', '{order}', '{1}', item_keys => '{null}', check_ats => '{null}')":                                                  pqerror.NullValueNotAllowed,
		"select prescient.enqueue_many('{remind,remind}', '{order,order}', '{1,2}', item_keys => '{null}', check_ats => '{2030-03-01}')":                             pqerror.ArraySubscriptError,
		"select prescient.enqueue_many('{remind}', '{order}', '{1,2}', item_keys => '{null}', check_ats => '{2030-03-01,2030-03-01}')":                               pqerror.ArraySubscriptError,
		"select prescient.enqueue_many('{remind}', '{order}', '{1}', item_keys => '{null}', check_ats => '{2030-03-01}', on_conflict => 'drop')":                     pqerror.InvalidParameterValue,
		"select prescient.enqueue_many('{remind}', '{order}', '{1}', item_keys => '{null}', check_ats => '{2030-03-01}', on_conflict => null)":                       pqerror.InvalidParameterValue,
		"select prescient.enqueue_many('{remind}', '{order}', '{1}', item_keys => '{null}', check_ats => '{2030-03-01}', payloads => '{no json}')":                   pqerror.InvalidTextRepresentation,
		"select prescient.enqueue_many('{remind}', '{order}', '{1}', item_keys => '{null}', check_ats => '{2030-03-01}', on_conflict => 'replace', max_wait => 'x')": pqerror.InvalidDatetimeFormat,
	} {
		refused(t, db, code, query)
	}
	if diff := cmp.Diff(before, dump(t, db, "prescient")); diff != "" {
		t.Error(diff)
	}
	if n := get[int](t, db, "select count(*) from prescient.future_job where entity_key = 'x' and next_check_at = '2030-03-01 12:00:00Z'"); n != 1 {
		t.Error("the row that waited is not as it was")
	}
	for _, at := range []string{"-infinity", "1969-07-20 20:17:00Z", "0044-03-15 12:00:00Z BC", "2020-01-01"} {
		if !get[bool](t, db, "select slot > clock_timestamp() and slot <= clock_timestamp() + interval '15 minutes' from prescient.enqueue('remind', 'order', $1, check_at => $1::text::timestamptz)", at) {
			t.Errorf("asked for %s: not in the next slot", at)
		}
	}
}

// An instant before 1970 is "as soon as possible", also with a window, and for a row whose slot has begun: a call that
// fails only while the slot of its row is run would fail once in a while.
func TestAnInstantBefore1970IsTakenWhateverTheRowDoes(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "select prescient.enqueue('a', 'order', '1', check_at => now() + interval '1 hour')")
	const due = "set_config('prescient_caller.clock', (now() + interval '1 day')::text, true) is not null"
	for _, at := range []string{"-infinity", "1969-07-20 20:17:00Z", "0044-03-15 12:00:00Z BC"} {
		for _, call := range []string{
			"enqueue('a', 'order', '2', check_at => $1::timestamptz, within => '1 hour')",
			"enqueue('a', 'order', '1', check_at => case when " + due + " then $1::timestamptz end)",
			"enqueue('a', 'order', '1', check_at => case when " + due + " then $1::timestamptz end, on_conflict => 'replace')",
			"push_back('a', 'order', '1', check_at => case when " + due + " then $1::timestamptz end, within => '1 hour')",
			"reschedule('a', 'order', '1', check_at => $1::timestamptz)",
			"enqueue_many('{a}', '{order}', '{2}', '{\"\"}', array[$1::timestamptz], withins => '{1 hour}')",
			"enqueue_many('{a}', '{order}', '{1}', '{\"\"}', array[case when " + due + " then $1::timestamptz end])",
		} {
			tx := begin(t, db)
			if _, err := tx.Exec("select from prescient."+call, at); err != nil {
				t.Errorf("%s: %s: %v", at, call, err)
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
		}
	}
	exec(t, db, "select prescient.enqueue('a', 'order', '1', check_at => case when "+due+" then now() + interval '2 days' end)")
	exec(t, db, "select prescient.reschedule('a', 'order', '1', check_at => '-infinity')")
}

func TestARefusalNamesTheArgument(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const two = "array['remind', 'remind'], array['order', 'order'], array['1', '2'], check_ats => array['2030-03-01', '2030-03-02']::timestamptz[]"
	for query, want := range map[string]string{
		"enqueue(null, 'order', '1', check_at => '2030-03-01')":                                                         "job_exec is null",
		"enqueue('remind', null, '1', check_at => '2030-03-01')":                                                        "entity_name is null",
		"enqueue('remind', 'order', null, check_at => '2030-03-01')":                                                    "entity_key is null",
		"enqueue('remind', 'order', '1', check_at => null)":                                                             "check_at is null",
		"push_back('remind', 'order', null, check_at => '2030-03-01')":                                                  "entity_key is null",
		"reschedule('remind', null, '1', check_at => '2030-03-01')":                                                     "entity_name is null",
		"enqueue('remind', 'order', '1', check_at => now() + interval '200 years')":                                     "must be within 100 years from now",
		"reschedule('remind', 'order', '1', check_at => now() + interval '200 years')":                                  "must be within 100 years from now",
		"push_back('remind', 'order', '1', check_at => now() + interval '200 years')":                                   "must be within 100 years from now",
		"enqueue('remind', 'order', '1', check_at => '2030-03-01', max_wait => '-1 day')":                               "max_wait is -1 days; it must be from 0 to 1000 years",
		"enqueue('remind', 'order', '1', check_at => '2030-03-01', max_wait => '1001 years')":                           "max_wait is 1001 years; it must be from 0 to 1000 years",
		"push_back('remind', 'order', '1', check_at => '2030-03-01', max_wait => '400000 days')":                        "max_wait is 400000 days; it must be from 0 to 1000 years",
		"enqueue_many(" + two + ", item_keys => null, max_wait => '1000000 years -360000000 days')":                     "max_wait is 1000000 years -360000000 days; it must be from 0 to 1000 years",
		"push_back('remind', 'order', '1', check_at => '2030-03-01', max_wait => '-1 day')":                             "max_wait is -1 days; it must be from 0 to 1000 years",
		"enqueue_many(" + two + ", item_keys => '{a,b}', payloads => '{null}')":                                         "payloads has 1 elements, and job_execs has 2",
		"enqueue_many(" + two + ", item_keys => '{a}')":                                                                 "item_keys has 1 elements, and job_execs has 2",
		"enqueue_many(" + two + ", item_keys => null, group_keys => '{a,b,c}')":                                         "group_keys has 3 elements, and job_execs has 2",
		"enqueue_many(" + two + ", item_keys => null, withins => '{1h}')":                                               "withins has 1 elements, and job_execs has 2",
		"enqueue_many(" + two + ", item_keys => null, unless_ended_withins => '{1h}')":                                  "unless_ended_withins has 1 elements, and job_execs has 2",
		"enqueue_many(" + two + ", item_keys => null, max_wait => '-1 day')":                                            "max_wait is -1 days; it must be from 0 to 1000 years",
		"enqueue_many('{a,b}', '{order,null}', '{1,2}', item_keys => null, check_ats => '{2030-03-01,2030-03-01}')":     "entity_names[2] is null",
		"enqueue_many('{a,b}', '{order,order}', '{null,2}', item_keys => null, check_ats => '{2030-03-01,2030-03-01}')": "entity_keys[1] is null",
		"enqueue_many('{a,null}', '{order,order}', '{1,2}', item_keys => null, check_ats => '{2030-03-01,2030-03-01}')": "job_execs[2] is null",
		"enqueue_many('{a,b}', '{order,order}', '{1,2}', item_keys => null, check_ats => '{2030-03-01,null}')":          "check_ats[2] is null",
		"enqueue_many('{a}', '{order}', '{1}', item_keys => null, check_ats => null)":                                   "check_ats has 0 elements, and job_execs has 1",
		"enqueue_many('{a}', '{order}', '{1}', item_keys => null, check_ats => array[now() + interval '200 years'])":    "must be within 100 years from now",
	} {
		if _, err := db.Exec("select from prescient." + query); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", query, err, want)
		}
	}
	if n := get[int](t, db, "select count(*) from prescient.future_job"); n != 0 {
		t.Errorf("%d rows", n)
	}
	exec(t, db, "select prescient.enqueue_many("+two+", item_keys => '{a,b}')")
	if n := get[int](t, db, "select count(*) from prescient.future_job"); n != 2 {
		t.Errorf("%d rows of a call without payloads", n)
	}
}

func TestAnEntityKeyMayBeANumberOrAUUID(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const uuid = "b3b1c0de-0000-4000-8000-000000000001"
	for call, want := range map[string]string{
		"'order', 42, check_at => '2030-03-01'":                                                        "42",
		"'order', 43::bigint, 'a', '2030-03-01', payload => '{}'":                                      "43",
		"'order', 44::smallint, check_at => now()":                                                     "44",
		"'order', '" + uuid + "'::uuid, check_at => '2030-03-01'":                                      uuid,
		"entity_name => 'order', entity_key => 45, check_at => '2030-03-01', on_conflict => 'replace'": "45",
		"'order', '46', check_at => '2030-03-01'":                                                      "46",
		"'order', '47'::varchar, check_at => '2030-03-01', within => '1 hour'":                         "47",
		"'order'::name, '48'::name, check_at => '2030-03-01'::date":                                    "48",
		"entity_name => 'order', entity_key => '49', check_at => '2030-03-01', payload => null":        "49",
	} {
		job := "'remind', "
		if strings.HasPrefix(call, "entity_name") {
			job = "job_exec => 'remind', "
		}
		exec(t, db, "select from prescient.enqueue("+job+call+")")
		if n := get[int](t, db, "select count(*) from prescient.future_job where entity_key = $1", want); n != 1 {
			t.Errorf("%s: %d rows", call, n)
		}
	}
	exec(t, db, "prepare asked as select prescient.enqueue('remind', 'order', $1, check_at => $2)")
	exec(t, db, "execute asked('50', '2030-03-01')")
	for call, want := range map[string]string{
		"'order', null, '2030-03-01'":         "entity_key is null",
		"'order', null::bigint, '2030-03-01'": "entity_key is null",
		"'order', 1.5, '2030-03-01'":          "entity_key is of type numeric, and must be text",
		"'order', current_date, '2030-03-01'": "entity_key is of type date, and must be text",
	} {
		if _, err := db.Exec("select from prescient.enqueue('remind', " + call + ")"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", call, err, want)
		}
	}
}

func TestASlotThatHasBegunIsNoTarget(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, test := range [][3]string{
		{"2030-03-01 12:00:00Z", "2030-03-01 11:59:59.999999Z", "2030-03-01 12:00:00"},
		{"2030-03-01 12:00:00Z", "2030-03-01 12:00:00Z", "2030-03-01 12:15:00"},
		{"2030-03-01 12:00:00Z", "2030-03-01 12:14:59.999999Z", "2030-03-01 12:15:00"},
		{"2030-03-01 12:00:00Z", "2030-03-01 12:15:00Z", "2030-03-01 12:30:00"},
		{"2030-03-01 12:20:00Z", "2030-03-01 12:00:00Z", "2030-03-01 12:30:00"},
	} {
		if got := get[string](t, db, "select "+utc("prescient.due_slot($1, $2)"), test[0], test[1]); got != test[2] {
			t.Errorf("asked for %s at %s: %s, want %s", test[0], test[1], got, test[2])
		}
	}
}

// A lock that is not taken would let an application change what a check reads.
func TestTheLockOfNoGroupIsRefused(t *testing.T) {
	t.Parallel()
	refused(t, pgtest.New(t), pqerror.NullValueNotAllowed, "select prescient.lock_group(null)")
}

// In each zone the clock changes between the instants: 2030-03-10 and 2030-11-03 in New York,
// 2030-04-07 and 2030-09-29 in Auckland.
func TestTheSlotIsTheSameInEveryTimeZoneOfTheSession(t *testing.T) {
	t.Parallel()
	for _, zone := range zones {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			db := inZone(t, zone)
			for _, width := range []string{"15 minutes", "8 hours", "24 hours"} {
				exec(t, db, "select prescient.set_width($1)", width)
				const off = `
					select count(*)
					from generate_series(timestamptz '2030-01-01 00:00:00Z', '2031-01-01 00:00:00Z', interval '1 hour 7 minutes 13 seconds') as at,
						prescient.setting,
						to_timestamp(ceil(extract(epoch from at) / extract(epoch from width)) * extract(epoch from width)) as want
					where prescient.slot_ceil(at) <> want
						or prescient.slot_floor(at, width) <> case when at = want then want else to_timestamp(extract(epoch from want) - extract(epoch from width)) end`
				if n := get[int](t, db, off); n != 0 {
					t.Errorf("width %s: %d instants get another slot", width, n)
				}
			}
			const day = `
				select count(*)
				from generate_series(timestamptz '2030-01-01 00:00:00Z', '2031-01-01 00:00:00Z', interval '1 hour 7 minutes 13 seconds') as at
				where prescient.slot_ceil(at, '1 day') <> prescient.slot_ceil(at, '24 hours')`
			if n := get[int](t, db, day); n != 0 {
				t.Errorf("a width of a day: %d instants get another slot than with 24 hours", n)
			}
			exec(t, db, "select prescient.set_width('15 minutes')")
			for key, day := range map[string]string{"1": "2030-03-09 12:00:00Z", "2": "2030-11-02 12:00:00Z", "3": "2030-04-06 12:00:00Z", "4": "2030-09-28 12:00:00Z"} {
				exec(t, db, "select prescient.enqueue('remind', 'order', $1, check_at => $2)", key, day)
				got := get[string](t, db, "select (prescient.push_back('remind', 'order', $1, check_at => '2031-01-01', max_wait => '1 day') - $2::text::timestamptz)::text", key, day)
				if got != "24:00:00" && got != "1 day" {
					t.Errorf("a max_wait of a day after %s is %s", day, got)
				}
			}
		})
	}
}

func TestAPushBackThatLandsInTheSameSlotWritesNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "select prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01 12:05:00Z')")
	// A row that is only locked keeps its place; one that is written gets another.
	place := get[string](t, db, "select ctid::text from prescient.future_job")
	for _, query := range []string{
		"select prescient.push_back('remind', 'order', '1', check_at => '2030-03-01 12:14:00Z')",
		"select prescient.push_back('remind', 'order', '1', check_at => '2030-03-01 12:15:00Z')",
		"select prescient.push_back('remind', 'order', '1', check_at => '2030-03-01 11:00:00Z')",
		"select prescient.push_back('remind', 'order', '1', check_at => '2030-03-01 18:00:00Z', max_wait => '14 minutes')",
		"select prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01 12:10:00Z', on_conflict => 'push_back')",
		"select prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01 18:00:00Z', on_conflict => 'keep')",
	} {
		exec(t, db, query)
		if now := get[string](t, db, "select ctid::text from prescient.future_job"); now != place {
			t.Errorf("it wrote the row: %s", query)
		}
	}
	exec(t, db, "select prescient.push_back('remind', 'order', '1', check_at => '2030-03-01 12:16:00Z')")
	if now := get[string](t, db, "select ctid::text from prescient.future_job"); now == place {
		t.Error("the row was not moved")
	}
}

// A row that is due is not moved: its check may have begun, or else it would never be checked.
func TestPlainSQLRecordsARequestOnARowThatIsDue(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	begun := get[string](t, db, "select "+utc("prescient.slot_floor(now(), '15 minutes')")) + "Z"
	for name, claim := range map[string]string{
		"claimed":     "select prescient.claim_rows(slot, 'run', 2, 'me', '1 hour', array[prescient.find_job('remind')], 10) from prescient.slot_run",
		"not claimed": "select",
	} {
		for _, policy := range []string{"keep", "replace", "push_back"} {
			for function, query := range map[string]string{
				"enqueue": "select action from prescient.enqueue('remind', 'order', '1', check_at => now() + interval '1 day', on_conflict => $1)",
				"enqueue_many": `select case when recorded > 0 then 'recorded' end
					from prescient.enqueue_many('{remind}', '{order}', '{1}', item_keys => '{""}', check_ats => array[now() + interval '1 day'], on_conflict => $1)`,
				"push_back": "select case when prescient.push_back('remind', 'order', '1', check_at => now() + interval '1 day') < now() and $1 <> '' then 'recorded' end",
			} {
				tx := begin(t, db)
				exec(t, tx, plainInsert, "remind", "order", "1", "", nil, begun, begun)
				exec(t, tx, "select prescient.open_slot($1, 'run', 1, 'me', '1 hour')", begun)
				exec(t, tx, claim)
				if got := get[string](t, tx, query, policy); got != "recorded" {
					t.Errorf("%s, %s, %s: %s", name, function, policy, got)
				}
				if n := get[int](t, tx, "select count(*) from prescient.future_job where next_check_at = $1 and (request).check_at > now()", begun); n != 1 {
					t.Errorf("%s, %s, %s: %d rows have the request", name, function, policy, n)
				}
				if err := tx.Rollback(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// A variable of an application may be null by mistake.
func TestCancelByANullIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, `select prescient.enqueue(job, 'order', '1', item_key => item, check_at => '2030-03-01') from unnest('{remind,alert}'::text[]) as job, unnest('{"",a}'::text[]) as item`)
	for call, null := range map[string]string{
		"cancel(null, 'order', '1')":            "job_exec",
		"cancel('remind', null, '1')":           "entity_name",
		"cancel('remind', 'order', null)":       "entity_key",
		"cancel('remind', 'order', null, null)": "entity_key",
		"cancel_entity(null, '1')":              "entity_name",
		"cancel_entity('order', null)":          "entity_key",
	} {
		if e := refused(t, db, pqerror.NullValueNotAllowed, "select prescient."+call); e.Message != null+" is null" {
			t.Errorf("%s: %s", call, e.Message)
		}
	}
	if get[bool](t, db, "select prescient.cancel('remind', 'order', '1', null)") {
		t.Error("an anonymous check was cancelled by a key")
	}
	if n := get[int](t, db, "select count(*) from prescient.future_job"); n != 4 {
		t.Errorf("%d of 4 checks wait", n)
	}
}
