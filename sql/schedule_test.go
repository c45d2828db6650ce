package sql_test

import (
	"strings"
	"testing"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestScheduleTableKeepsItsRules(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "insert into prescient.schedule (id, crontab, anchor) values ('a', '@daily', '2030-03-01')")
	for change, code := range map[string]pqerror.Code{
		"id = ''":                       pqerror.CheckViolation,
		"id = repeat('ü', 101)":         pqerror.CheckViolation,
		"id = ' '":                      pqerror.CheckViolation,
		`id = E'a\n'`:                   pqerror.CheckViolation,
		`id = E'a\u0085b'`:              pqerror.CheckViolation,
		"misfire = 'sometimes'":         pqerror.CheckViolation,
		"deadline = '0'":                pqerror.CheckViolation,
		"spread = '-1 second'":          pqerror.CheckViolation,
		"spread = '24 hours 1 second'":  pqerror.CheckViolation,
		"anchor = 'infinity'":           pqerror.CheckViolation,
		"anchor = '1969-12-31 00:00Z'":  pqerror.CheckViolation,
		"deadline_from = 'now'":         pqerror.CheckViolation,
		"starts_at = '-infinity'":       pqerror.CheckViolation,
		"ends_at = 'infinity'":          pqerror.CheckViolation,
		"max_runs = 0":                  pqerror.CheckViolation,
		"exclude = '{sat, null}'":       pqerror.CheckViolation,
		"exclude = '{{sat}}'":           pqerror.CheckViolation,
		"exclude = '[0:0]={sat}'":       pqerror.CheckViolation,
		"anchor = null":                 pqerror.NotNullViolation,
		"payload = '{'":                 pqerror.InvalidTextRepresentation,
		"paused = null":                 pqerror.NotNullViolation,
		"crontab = null, timezone = ''": pqerror.NotNullViolation,
	} {
		refused(t, db, code, "update prescient.schedule set "+change)
	}
	refused(t, db, pqerror.UniqueViolation, "insert into prescient.schedule (id, crontab, anchor) values ('a', '@daily', '2030-03-01')")
	refused(t, db, pqerror.CheckViolation, "insert into prescient.event_consumer (name, mark, position) values ('', '1', 1)")
}

// A run, a page and a reader cost what they return, however many schedules and events there are.
func TestStatementsOfSchedulesAndEventsReadTheirKeysAlone(t *testing.T) {
	pgtest.NotOnCitus(t, "the plans of a worker are its own")
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, `insert into prescient.schedule (id, crontab, anchor) select 's' || n, '@daily', '2030-03-01' from generate_series(1, 20000) as n`)
	exec(t, db, `insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at)
		select prescient.ensure_job('schedule'), 'schedule', id, '`+noon+`', '`+noon+`' from prescient.schedule`)
	exec(t, db, `insert into prescient.schedule_state (id, dropped) select id, 1 from prescient.schedule`)
	exec(t, db, `insert into prescient.event_outbox (mark, id, source, type) select n::text::xid8, n, 's', 't' from generate_series(1, 20000) as n`)
	exec(t, db, "analyze")
	ids := pq.StringArray{"s1", "s77", "s4711"}
	for name, test := range map[string]struct {
		stmt  pg.Statement
		args  []any
		table string
	}{
		"schedule_due":    {pg.ScheduleDue, []any{ids}, "schedule"},
		"schedule_lock":   {pg.ScheduleLock, []any{ids}, "schedule"},
		"schedule_wait":   {pg.ScheduleWait, []any{ids}, "future_job"},
		"schedule_past":   {pg.SchedulePast, []any{ids}, "schedule_state"},
		"schedule_delete": {pg.ScheduleDelete, []any{ids}, "schedule"},
		"one schedule":    {pg.ScheduleList, []any{"", "", nil, 1, pq.StringArray{"s77"}, nil}, "future_job"},
		"schedule_ids":    {pg.ScheduleIDs, []any{"s77", 100}, "schedule"},
		"a page":          {pg.ScheduleList, []any{"s77", "", nil, 100, nil, nil}, "future_job"},
		"a prefix":        {pg.ScheduleList, []any{"", "s777", nil, 100, nil, nil}, "schedule"},
		"event_read":      {pg.EventRead, []any{"100", 7, 100}, "event_outbox"},
		"event_newest":    {pg.EventNewest, []any{100}, "event_outbox"},
		"event_prune":     {pg.EventPrune, []any{noon, 100, false}, "event_outbox"},
	} {
		if plan := explain(t, db, test.stmt, test.args...); strings.Contains(plan, "Seq Scan on "+test.table+" ") {
			t.Errorf("%s reads all of %s:\n%s", name, test.table, plan)
		}
	}
}
