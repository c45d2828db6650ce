package sql_test

import (
	"strings"
	"testing"

	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/sql/pgtest"
)

// A kilobyte of numbers can be a gigabyte of text, which would kill the run that reads it.
func TestAPayloadIsBoundedInItsTextAndItsLevels(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	numbers := "[" + strings.Repeat("1e131071,", 9) + "1]"
	long := `"` + strings.Repeat("x", 1<<20) + `"`
	fits := `"` + strings.Repeat("x", 1<<20-2) + `"`
	deep := strings.Repeat(`{"a":`, 5000) + "[]" + strings.Repeat("}", 5000)
	for bad, limit := range map[string]string{
		numbers: "payload_is_at_most_1048576_bytes_as_text",
		long:    "payload_is_at_most_1048576_bytes_as_text",
		deep:    "payload_is_nested_at_most_5000_levels_deep",
	} {
		for what, statement := range map[string]string{
			"enqueue":      `select prescient.enqueue('remind', 'order', '1', check_at => clock_timestamp(), payload => $1)`,
			"enqueue_many": `select prescient.enqueue_many('{remind}', '{order}', '{1}', item_keys => '{""}', check_ats => array[clock_timestamp()], on_conflict => 'keep', payloads => array[$1])`,
			"insert": `insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at, payload)
				values (1, 'order', '1', '2030-03-01', '2030-03-01', $1)`,
			"schedule": `insert into prescient.schedule (id, crontab, anchor, payload) values ('a', '@daily', '2030-03-01', $1)`,
		} {
			if e := refused(t, db, pqerror.CheckViolation, statement, bad); !strings.Contains(e.Error(), limit) {
				t.Errorf("%s: %v does not say the limit", what, e)
			}
		}
	}
	exec(t, db, `select prescient.enqueue('remind', 'order', '1', check_at => clock_timestamp(), payload => $1)`, fits)
	exec(t, db, `select prescient.enqueue('remind', 'order', '2', check_at => clock_timestamp(), payload => $1)`, strings.Repeat("[", 5000)+strings.Repeat("]", 5000))
	refused(t, db, pqerror.CheckViolation, `update prescient.future_job set payload = $1`, numbers)
}
