package sql_test

import (
	"strings"
	"testing"

	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/sql/pgtest"
)

// Pages, logs and metrics show these texts, and lists have many of them.
func TestTheTextsThatPagesShowAreBounded(t *testing.T) {
	pgtest.NotOnCitus(t, "an error of a worker names no constraint")
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, rowsOfVersion1)
	for column, constraint := range map[string]string{
		"job.name": "job_name", "job.paused_by": "label_is_at_most_2000_bytes",
		"future_job.last_error": "error_is_at_most_2000_bytes", "future_job.enqueued_by": "label_is_at_most_2000_bytes", "future_job.enqueued_app": "label_is_at_most_2000_bytes",
		"future_job.enqueued_actor": "label_is_at_most_2000_bytes", "future_job.enqueued_traceparent": "label_is_at_most_2000_bytes",
		"future_job_history.job_exec": "entity_name_is_1_to_200_bytes", "future_job_history.entity_name": "entity_name_is_1_to_200_bytes",
		"future_job_history.entity_key": "entity_key_is_1_to_500_bytes", "future_job_history.item_key": "item_key_is_at_most_500_bytes",
		"future_job_history.group_key": "group_key_is_1_to_500_bytes", "future_job_history.last_error": "error_is_at_most_2000_bytes",
		"future_job_history.enqueued_by": "label_is_at_most_2000_bytes", "future_job_history.enqueued_app": "label_is_at_most_2000_bytes",
		"future_job_history.enqueued_actor": "label_is_at_most_2000_bytes", "future_job_history.runner": "label_is_at_most_2000_bytes",
		"slot_job.error": "error_is_at_most_2000_bytes", "slot_progress.error": "error_is_at_most_2000_bytes", "slot_claim.runner": "label_is_at_most_2000_bytes",
		"schedule.id": "schedule_id", "schedule.crontab": "label_is_at_most_2000_bytes", "schedule.timezone": "label_is_at_most_2000_bytes",
		"event_consumer.name": "event_consumer_name", "action.actor": "label_is_at_most_2000_bytes", "action.what": "label_is_at_most_2000_bytes",
	} {
		table, name, _ := strings.Cut(column, ".")
		e := refused(t, db, pqerror.CheckViolation, "update prescient."+table+" set "+name+" = $1", strings.Repeat("ä", 1001))
		if e.Constraint != constraint {
			t.Errorf("%s: constraint %q", column, e.Constraint)
		}
	}
	e := refused(t, db, pqerror.CheckViolation, "update prescient.schedule set exclude = array_fill($1::text, array[101])", strings.Repeat("a", 2000))
	if e.Constraint != "schedule_exclude" {
		t.Errorf("exclude: constraint %q", e.Constraint)
	}
}
