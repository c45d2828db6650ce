package record

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// each is how many rows have the same outcome: too many for statements of one row.
const each = few + 1

// verdicts are those of rows 0, 1, 2 and so on. Then they begin again.
func verdicts(at time.Time) []guard.Verdict {
	payload, soon := json.RawMessage(`{"new": 1}`), at.Add(time.Hour)
	return []guard.Verdict{
		{Outcome: jobs.OutcomeDone},
		{Move: guard.MoveNext, Next: soon},
		{Move: guard.MoveNext, Next: at}, // a slot that has begun by now
		{Outcome: jobs.OutcomePast},
		{Outcome: jobs.OutcomeDone, Payload: payload},
		{Outcome: jobs.OutcomeFailed, Error: "boom", Payload: payload},
		{Outcome: jobs.OutcomeSkipped},
		{Move: guard.MoveNext, Next: soon, Payload: payload},
		{Move: guard.MoveRetry, Next: soon, Error: "boom", Payload: payload},
		{Move: guard.MoveDefer, Next: soon},
	}
}

// A record has a statement for one row, for rows that are all alike, for the rest that ends, and for the rest that
// moves. Citus has another one for rows that end.
func TestEachWayToRecordWritesTheSame(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "one of the ways is its own")
	want := recorded(t, parts(1), false)
	if len(want) < each*len(verdicts(time.Time{})) {
		t.Fatalf("only %q", want)
	}
	for name, test := range map[string]struct {
		divide division
		citus  bool
	}{
		"some at once":       {parts(few), false},
		"all at once":        {parts(1000), false},
		"those of a kind":    {ofAKind, false},
		"all, as on Citus":   {parts(1000), true},
		"kinds, as on Citus": {ofAKind, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(want, recorded(t, test.divide, test.citus)); diff != "" {
				t.Errorf("(-one by one +%s):\n%s", name, diff)
			}
		})
	}
}

// division divides outcomes into those that are recorded together.
type division func(list []row.Outcome) [][]row.Outcome

// parts divides outcomes into parts of n, in order.
func parts(n int) division {
	return func(list []row.Outcome) [][]row.Outcome { return slices.Collect(slices.Chunk(list, n)) }
}

// ofAKind divides outcomes into those of each verdict.
func ofAKind(list []row.Outcome) [][]row.Outcome {
	kinds := make([][]row.Outcome, len(list)/each)
	for i, o := range list {
		kinds[i%len(kinds)] = append(kinds[i%len(kinds)], o)
	}
	return kinds
}

// written finds when a row, a request and an entry of a journal were written.
var written = regexp.MustCompile(`("enqueued_at": |\\"at\\":)("[^"]*"|\d+)`)

// recorded records each verdict for rows without a request and for rows with one, in parts. It returns what the
// tables have then, as JSON.
func recorded(t *testing.T, divide division, citus bool) []string {
	t.Helper()
	b := setup(t, each*len(verdicts(time.Time{})))
	all := verdicts(b.slot.At())
	const sla = 2 * time.Second // what some checks meet just now, and others miss
	b.slot.Server.Citus = citus
	b.slot.Def.SLA = sla
	exec := func(query string) {
		t.Helper()
		if _, err := b.slot.Server.DB.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	exec(`update prescient.job set sla = '2 seconds'`)
	exec(`update prescient.future_job set payload = '"old"', error_count = 1, last_error = 'before', spent = '1 second'`)
	client, err := jobs.NewClient(t.Context(), b.slot.Server.DB, jobs.Config{Now: b.slot.At})
	if err != nil {
		t.Fatal(err)
	}
	var list []row.Outcome
	for i := range b.rows {
		v := all[i%len(all)]
		o := row.Outcome{ID: b.rows[i].ID, Number: b.slot.Number, Verdict: &v}
		if o.Ran = v.Move != guard.MoveDefer && v.Outcome != jobs.OutcomeSkipped; o.Ran {
			o.Lateness, o.Duration = sla+time.Duration(i%len(all)%2)*time.Second, 1500*time.Millisecond
		}
		list = append(list, o)
		if i/len(all)%2 == 1 {
			r := jobs.Request{JobExec: "job", EntityName: "order", EntityKey: b.rows[i].EntityKey}
			r.CheckAt, r.Payload = b.slot.At().Add(30*time.Minute), json.RawMessage(`"asked"`)
			e, err := client.Enqueue(t.Context(), jobs.OwnTx(b.slot.Server.DB), r, jobs.Replace)
			if err != nil || e.Action != jobs.ActionRecorded {
				t.Fatalf("%+v, %v", e, err)
			}
		}
	}
	divided := divide(list)
	for i, part := range divided {
		then := GoOn
		if i == len(divided)-1 {
			then = EndClaim
		}
		left, err := b.Record(b.claim, part, then)
		if err != nil || len(left) > 0 {
			t.Fatalf("%d are left: %v", len(left), err)
		}
	}
	var lines []string
	if err := b.slot.Server.DB.SelectContext(t.Context(), &lines, `
		select 'waits ' || lpad(entity_key, 3) || ' ' || (to_jsonb(f) - 'id' - 'entity_key')::text from prescient.future_job f
		union all
		select 'ended ' || lpad(entity_key, 3) || ' ' || (to_jsonb(h) - 'id' - 'entity_key' - 'finished_at')::text
		from prescient.future_job_history h
		union all
		select 'counted ' || jsonb_build_object(
			'bucket', bucket, 'finished', sum(finished), 'rescheduled', sum(rescheduled), 'failed', sum(failed),
			'spent', sum(spent), 'late', sum(late), 'error', min(error))::text
		from prescient.slot_progress where job <> 0 group by bucket
		order by 1`); err != nil {
		t.Fatal(err)
	}
	for i := range lines {
		lines[i] = written.ReplaceAllString(lines[i], "$1")
	}
	return append(lines, fmt.Sprintf("%+v", b.tally))
}
