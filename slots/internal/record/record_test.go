package record

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/claim"
	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/slots/internal/slottest"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// bench has a recorder in a slot, and a claim of all rows.
type bench struct {
	slot *slottest.Slot
	*Recorder
	claim   *claim.Claim
	rows    []jobs.FutureJob
	tally   row.Tally
	refused []error
}

func setup(t *testing.T, rows int) *bench {
	t.Helper()
	b := &bench{slot: slottest.Open(t, rows, func(r *jobs.Registry) {
		r.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }), jobs.Retry(0))
	})}
	w := &Writer{Session: b.slot.Session, Now: b.slot.At}
	b.Recorder = New(w, Options{
		Leases: b.slot.Leases, Writing: NewWriting(100), Moment: b.slot.Moment,
		Count:        func(n row.Tally, _ []row.Outcome) { b.tally.Plus(n) },
		CountRefused: func(why error) { b.refused = append(b.refused, why) },
	})
	b.claim = b.slot.Claim(int64(rows))
	b.rows = b.slot.Read(b.claim)
	return b
}

// all returns the same outcome for all rows.
func (b *bench) all(v guard.Verdict) (list []row.Outcome) {
	for i := range b.rows {
		list = append(list, row.Outcome{ID: b.rows[i].ID, Number: b.slot.Number, Verdict: &v, Ran: true})
	}
	return list
}

func TestTheRecordOfTheLastRowEndsItsClaim(t *testing.T) {
	t.Parallel()
	b := setup(t, 3)
	outcomes := b.all(guard.Verdict{Outcome: jobs.OutcomeDone})
	outcomes[1].Verdict = &guard.Verdict{Move: guard.MoveNext, Next: b.slot.At().Add(time.Hour)}
	for i, part := range [][]row.Outcome{outcomes[:1], outcomes[1:]} {
		left, err := b.Record(b.claim, part, Then(i))
		if err != nil || len(left) > 0 || b.claim.Done != (i == 1) {
			t.Fatalf("%d are left, done %t: %v", len(left), b.claim.Done, err)
		}
	}
	if diff := cmp.Diff([]string{"0 done", "2 done"}, b.slot.Ended()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := (row.Tally{Finished: 2, Rescheduled: 1}); b.tally != want {
		t.Errorf("counted %+v, want %+v", b.tally, want)
	}
	if c, err := b.slot.Another().Session.TakeOver([]int64{b.slot.Number}); c != nil || err != nil {
		t.Errorf("the claim goes on: %v, %v", c, err)
	}
}

func TestARunnerThatLostItsClaimRecordsNothing(t *testing.T) {
	t.Parallel()
	for name, record := range map[string]func(b *bench, outcomes []row.Outcome) ([]row.Outcome, error){
		"of free rows": func(b *bench, outcomes []row.Outcome) ([]row.Outcome, error) {
			return b.Record(b.claim, outcomes, GoOn)
		},
		"with the end of the claim": func(b *bench, outcomes []row.Outcome) ([]row.Outcome, error) {
			return b.Record(b.claim, outcomes, EndClaim)
		},
		"of rows that were locked": func(b *bench, outcomes []row.Outcome) ([]row.Outcome, error) {
			return b.RecordLocked(b.claim, outcomes)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 3)
			b.slot.Lose(b.claim)
			if left, err := record(b, b.all(guard.Verdict{Outcome: jobs.OutcomeDone})); err != nil || len(left) > 0 {
				t.Errorf("%d are left: %v", len(left), err)
			}
			if ended := b.slot.Ended(); len(ended) > 0 || b.tally != (row.Tally{}) {
				t.Errorf("recorded %q, counted %+v", ended, b.tally)
			}
			if !errors.Is(context.Cause(b.claim.Ctx), claim.ErrLost) {
				t.Errorf("its checks end by %v", context.Cause(b.claim.Ctx))
			}
		})
	}
}

func TestARowThatIsLockedElsewhereKeepsBackNoOther(t *testing.T) {
	t.Parallel()
	b := setup(t, 3)
	unlock := b.slot.Lock("1")
	left, err := b.Record(b.claim, b.all(guard.Verdict{Outcome: jobs.OutcomeDone}), EndClaim)
	if err != nil || len(left) != 1 || left[0].ID != b.rows[1].ID || b.claim.Done {
		t.Errorf("%+v are left, done %t: %v", left, b.claim.Done, err)
	}
	if diff := cmp.Diff([]string{"0 done", "2 done"}, b.slot.Ended()); diff != "" {
		t.Errorf("while it is locked (-want +got):\n%s", diff)
	}
	unlock()
	if left, err = b.RecordLocked(b.claim, left); err != nil || len(left) > 0 {
		t.Errorf("%d are left: %v", len(left), err)
	}
	if diff := cmp.Diff([]string{"0 done", "1 done", "2 done"}, b.slot.Ended()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A check is the actor of what it enqueues. A record of several messages has the records of other rows after it.
func TestTheActorOfWhatACheckEnqueuesIsNotThatOfTheRowsAfterIt(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	if _, err := b.slot.Server.DB.ExecContext(t.Context(),
		`select prescient.enqueue('job', 'order', '1', check_at => case when set_config('prescient_caller.clock', ($1)::timestamptz::text, true) is not null then ($1)::timestamptz end)`, b.slot.At()); err != nil {
		t.Fatal(err)
	}
	outcomes := b.all(guard.Verdict{Outcome: jobs.OutcomeDone})
	first := *outcomes[0].Verdict
	payload := json.RawMessage(`"` + strings.Repeat("x", 60<<10) + `"`)
	for i := range MaxMessage/len(payload) + 1 {
		r := jobs.Request{JobExec: "job", EntityName: "other", EntityKey: strconv.Itoa(i)}
		r.CheckAt, r.Payload = b.slot.At().Add(time.Hour), payload
		first.Enqueue = append(first.Enqueue, r)
	}
	outcomes[0].Verdict = &first
	if left, err := b.RecordLocked(b.claim, outcomes); err != nil || len(left) > 0 {
		t.Fatalf("%d are left: %v", len(left), err)
	}
	var told []string
	if err := b.slot.Server.DB.SelectContext(t.Context(), &told, `
		select distinct entity_name || ' by ' || coalesce(enqueued_actor, 'none')
			|| case when journal is not null then ', told by ' || coalesce(journal::json ->> 'actor', 'none') else '' end
		from prescient.future_job order by 1`); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"order by none, told by none", "other by check of job"}, told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestARowThatTheDatabaseRefusesEndsInAnErrorAndTheOthersAreRecorded(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "its workers have no triggers")
	for name, test := range map[string]struct {
		when    string
		want    []string
		refused int
	}{
		"its outcome":   {`new.outcome = 'done'`, []string{"0 done", "1 failed", "2 done", "3 done"}, 0},
		"and its error": {`true`, []string{"0 done", "2 done", "3 done"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 4)
			if _, err := b.slot.Server.DB.ExecContext(t.Context(), `
				create function public.refuse() returns trigger language plpgsql as $$ begin raise 'not this one'; end $$;
				create trigger refuse before insert on prescient.future_job_history
				for each row when (new.entity_key = '1' and `+test.when+`) execute function public.refuse()`); err != nil {
				t.Fatal(err)
			}
			left, err := b.Record(b.claim, b.all(guard.Verdict{Outcome: jobs.OutcomeDone}), EndClaim)
			if err != nil || len(left) > 0 || b.claim.Done {
				t.Errorf("%d are left, done %t: %v", len(left), b.claim.Done, err)
			}
			if diff := cmp.Diff(test.want, b.slot.Ended()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(b.refused) != test.refused || b.claim.Refused != int64(test.refused) {
				t.Errorf("%d rows are refused", len(b.refused))
			}
		})
	}
}

func TestOutcomesOfManyBytesAreRecordedInSeveralMessages(t *testing.T) {
	t.Parallel()
	b := setup(t, 3)
	payload := json.RawMessage(`"` + strings.Repeat("x", 8<<20) + `"`)
	outcomes := b.all(guard.Verdict{Outcome: jobs.OutcomeDone, Payload: payload})
	if n := fitting(outcomes, MaxMessage); n != 1 {
		t.Errorf("%d rows of eight megabytes fit into a message", n)
	}
	if n := fitting(outcomes, 1); n != 1 {
		t.Errorf("%d rows are sent that fit into no message", n)
	}
}
