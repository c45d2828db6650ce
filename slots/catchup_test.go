package slots_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/spread"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/ledger"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func (w *world) status() ledger.Status {
	w.t.Helper()
	s, err := w.ledger.Status(w.t.Context(), time.Time{})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) catchUp(c slots.CatchUp) slots.Caught {
	w.t.Helper()
	caught, err := w.runner().CatchUp(w.t.Context(), c)
	if err != nil {
		w.t.Fatal(err)
	}
	return caught
}

func TestCatchUpOfNothingIsSuccess(t *testing.T) {
	t.Parallel()
	w := setup(t)
	if diff := cmp.Diff(slots.Caught{}, w.catchUp(slots.CatchUp{})); diff != "" {
		t.Error(diff)
	}
}

func TestMissedSlotsAreShownAndCaughtUpOldestFirst(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var order []string
	w.registry.Register("job", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		if !job.CaughtUp {
			t.Error("the check was not told that it is caught up")
		}
		order = append(order, job.Slot.Format("15:04"))
		return nil, nil
	}))
	w.registry.Register("other", jobs.Row(done))
	w.run(slot(1))
	for i, at := range []int{4, 2, 5} {
		job := jobs.Request{JobExec: "job", EntityName: "order", EntityKey: string(rune('a' + i))}
		job.CheckAt = slot(at)
		if _, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), job); err != nil {
			t.Fatal(err)
		}
	}
	w.clock.Set(slot(6).Add(time.Minute))

	// 12:30 to 13:15 were missed; 13:30 has begun and may still be run.
	var missed []ledger.Trouble
	for n := 2; n <= 5; n++ {
		waiting := int64(1)
		if n == 3 {
			waiting = 0
		}
		trouble := ledger.Trouble{Slot: slot(n), State: slots.StateMissed}
		if waiting > 0 {
			trouble.Jobs = []ledger.JobCount{{JobExec: "job", Waiting: ledger.Count{N: waiting}}}
		}
		missed = append(missed, trouble)
	}
	if s := w.status(); s.OK() || rowsInTrouble(s) != 3 {
		t.Errorf("the status: %+v", s)
	} else if diff := cmp.Diff(missed, s.Trouble); diff != "" {
		t.Error(diff)
	}

	dry := w.catchUp(slots.CatchUp{DryRun: true})
	want := slots.Caught{Empty: 1, Slots: []slots.MissedSlot{{slot(2), slots.StateMissed}, {slot(4), slots.StateMissed}, {slot(5), slots.StateMissed}}}
	if diff := cmp.Diff(want, dry); diff != "" {
		t.Error(diff)
	}
	if len(order) != 0 {
		t.Error("a dry run checked rows")
	}
	caught := w.catchUp(slots.CatchUp{})
	if caught.Empty != 1 || len(caught.Results) != 3 {
		t.Errorf("caught: %+v", caught)
	}
	if diff := cmp.Diff([]string{"12:30", "13:00", "13:15"}, order); diff != "" {
		t.Error(diff)
	}
	if s := w.status(); !s.OK() {
		t.Errorf("after catch-up: %+v", s.Trouble)
	}
	run, err := w.ledger.Show(t.Context(), slot(4))
	if err != nil || run.Kind != slots.KindCatchUp || run.Finished != 1 {
		t.Errorf("the ledger: %+v, %v", run, err)
	}
}

func TestAStragglerIsShownAndCaughtUp(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(done))
	tx := w.db.MustBegin()
	defer func() { _ = tx.Rollback() }()
	job := jobs.Request{JobExec: "job", EntityName: "order", EntityKey: "slow to commit"}
	job.CheckAt = slot(1)
	if _, err := w.client.Enqueue(t.Context(), tx, job); err != nil {
		t.Fatal(err)
	}
	w.enqueue("job", slot(1), 1)
	w.run(slot(1))
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]ledger.Trouble{{Slot: slot(1), State: slots.StateDone, Jobs: []ledger.JobCount{{JobExec: "job", Waiting: ledger.Count{N: 1}}}}}, w.status().Trouble); diff != "" {
		t.Error(diff)
	}
	if again := w.run(slot(1)); again.Checked != 0 {
		t.Error("a run took a slot that is done")
	}
	caught := w.catchUp(slots.CatchUp{})
	if len(caught.Results) != 1 || caught.Results[0].Finished != 1 {
		t.Errorf("caught: %+v", caught)
	}
	if s := w.status(); !s.OK() {
		t.Errorf("after catch-up: %+v", s.Trouble)
	}
	// Its other rows were checked in time.
	if run, err := w.ledger.Show(t.Context(), slot(1)); err != nil || run.Kind != slots.KindRun || run.Finished != 2 {
		t.Errorf("the ledger: %+v, %v", run, err)
	}
}

func TestASlotThatHasJustBegunIsNotMissedYet(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(done))
	w.enqueue("job", slot(1), 1)
	w.clock.Set(slot(1).Add(time.Minute))
	if s := w.status(); !s.OK() || s.Current.State != "" {
		t.Errorf("the status: %+v", s)
	}
	if caught := w.catchUp(slots.CatchUp{}); len(caught.Results) != 0 || caught.Empty != 0 {
		t.Errorf("caught: %+v", caught)
	}
}

func TestCatchUpFollowsEachJobsMisfirePolicy(t *testing.T) {
	t.Parallel()
	w := setup(t)
	never := func(context.Context, jobs.FutureJob) (*time.Time, error) {
		t.Error("checked")
		return nil, nil
	}
	w.registry.Register("run", jobs.Row(done))
	w.registry.Register("defer", jobs.Row(never), jobs.OnMisfire(jobs.MisfireDefer))
	w.registry.Register("skip", jobs.Row(never), jobs.OnMisfire(jobs.MisfireSkip))
	w.registry.Register("deadline", jobs.Row(never), jobs.Deadline(time.Minute))
	for _, job := range []string{"run", "defer", "skip", "deadline"} {
		w.enqueue(job, slot(1), 2)
	}
	w.clock.Set(slot(4).Add(time.Minute))
	w.catchUp(slots.CatchUp{})
	if diff := cmp.Diff(map[jobs.Outcome]int{jobs.OutcomeDone: 2, jobs.OutcomeSkipped: 2, jobs.OutcomeDeadline: 2}, w.outcomes()); diff != "" {
		t.Error(diff)
	}
	for _, job := range w.waiting() {
		if job.JobExec != "defer" || !job.NextCheckAt.Equal(slot(5)) || job.CheckCount != 0 {
			t.Errorf("waits: %+v until %s", job, job.NextCheckAt)
		}
	}
}

func TestCatchUpCanDeferEverythingOverTheNextSlots(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(done))
	w.registry.Register("other", jobs.Row(done))
	w.enqueue("job", slot(1), 60)
	w.enqueue("other", slot(2), 60)
	for range 120 {
		row := jobs.Request{JobExec: "job", EntityName: "order", EntityKey: "1", Anonymous: true, CheckAt: slot(2)}
		if _, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), row); err != nil {
			t.Fatal(err)
		}
	}
	w.clock.Set(slot(4).Add(time.Minute))
	caught := w.catchUp(slots.CatchUp{Mode: slots.ModeDefer, Spread: 3})
	if len(caught.Results) != 2 || caught.Results[0].Rescheduled != 60 || caught.Results[1].Rescheduled != 180 {
		t.Errorf("caught: %+v", caught)
	}
	keyed, anonymous := map[string]int{}, map[string]int{}
	for _, job := range w.waiting() {
		if job.Anonymous {
			anonymous[job.NextCheckAt.Format("15:04")]++
			continue
		}
		keyed[job.NextCheckAt.Format("15:04")]++
		if want := spread.Key(job.Key()).PickSlot(slotGrid, slot(5), 45*time.Minute, slot(5)); !job.NextCheckAt.Equal(want) {
			t.Errorf("%s is in slot %s, its place is %s", job.Key(), job.NextCheckAt, want)
		}
	}
	for _, counts := range []map[string]int{keyed, anonymous} { // by chance, always the same
		if len(counts) != 3 || min(counts["13:15"], counts["13:30"], counts["13:45"]) < 25 {
			t.Errorf("spread over 13:15, 13:30 and 13:45: %v", counts)
		}
	}
	if s := w.status(); !s.OK() {
		t.Errorf("after catch-up: %+v", s.Trouble)
	}
}

func TestCatchUpCanExpireWhatIsPastItsDeadlineAndLeavesTheRest(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("strict", jobs.Row(done), jobs.Deadline(20*time.Minute))
	w.registry.Register("lax", jobs.Row(done), jobs.Deadline(48*time.Hour))
	w.enqueue("strict", slot(1), 2)
	w.enqueue("lax", slot(1), 3)
	w.clock.Set(slot(4))
	w.catchUp(slots.CatchUp{Mode: slots.ModeExpire})
	if diff := cmp.Diff(map[jobs.Outcome]int{jobs.OutcomeDeadline: 2}, w.outcomes()); diff != "" {
		t.Error(diff)
	}
	trouble := w.status().Trouble
	if len(trouble) == 0 || trouble[0].Slot != slot(1) || trouble[0].State != slots.StateOpen || trouble[0].Waiting().N != 3 {
		t.Errorf("the status: %+v", trouble)
	}
	w.catchUp(slots.CatchUp{})
	if n := w.outcomes()[jobs.OutcomeDone]; n != 3 {
		t.Errorf("%d done after a further catch-up, want 3", n)
	}
	if s := w.status(); !s.OK() {
		t.Errorf("after catch-up: %+v", s.Trouble)
	}
}

func TestCatchUpTakesOneJobOrSoManyRowsWhenToldTo(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(done))
	w.registry.Register("other", jobs.Row(done))
	w.enqueue("job", slot(1), 70)
	w.enqueue("other", slot(1), 5)
	w.enqueue("other", slot(2), 5)
	w.clock.Set(slot(4))

	w.catchUp(slots.CatchUp{Job: "other", Until: slot(2)})
	if diff := cmp.Diff(map[jobs.Outcome]int{jobs.OutcomeDone: 5}, w.outcomes()); diff != "" {
		t.Error(diff)
	}
	w.catchUp(slots.CatchUp{Limit: 60})
	if diff := cmp.Diff(map[jobs.Outcome]int{jobs.OutcomeDone: 65}, w.outcomes()); diff != "" {
		t.Error(diff)
	}
	w.catchUp(slots.CatchUp{Since: slot(2)})
	if diff := cmp.Diff(map[jobs.Outcome]int{jobs.OutcomeDone: 65}, w.outcomes()); diff != "" {
		t.Error(diff) // the keys of "other" at slot 2 were waiting at slot 1 already
	}
	w.catchUp(slots.CatchUp{})
	if diff := cmp.Diff(map[jobs.Outcome]int{jobs.OutcomeDone: 75}, w.outcomes()); diff != "" {
		t.Error(diff)
	}
	if s := w.status(); !s.OK() {
		t.Errorf("after catch-up: %+v", s.Trouble)
	}
}

func TestCatchUpEndsWithTheSlotInWhichItReachesItsLimit(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i, job := range []string{"first", "second", "third"} {
		w.registry.Register(job, jobs.Row(done))
		w.enqueue(job, slot(1+i), 5)
	}
	w.clock.Set(slot(4))
	for _, want := range []int{10, 15} {
		w.catchUp(slots.CatchUp{Limit: 10})
		if diff := cmp.Diff(map[jobs.Outcome]int{jobs.OutcomeDone: want}, w.outcomes()); diff != "" {
			t.Error(diff)
		}
	}
}

func TestBadCatchUpIsRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, c := range []slots.CatchUp{{Mode: "walk"}, {Limit: -1}, {Spread: -1}, {Spread: 2}, {Mode: slots.ModeDefer, Spread: 100_001}} {
		if _, err := w.runner().CatchUp(t.Context(), c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

func TestTwoCatchUpsAtOnceCheckEachRowOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(done))
	for n := 1; n <= 5; n++ {
		w.enqueue("job", slot(n), n*20) // keys that wait already are kept: 20 rows a slot
	}
	w.clock.Set(slot(7))
	results := make(chan slots.Caught, 2)
	for range 2 {
		r := w.runner()
		go func() {
			caught, err := r.CatchUp(context.WithoutCancel(t.Context()), slots.CatchUp{})
			if err != nil {
				t.Error(err)
			}
			results <- caught
		}()
	}
	var checked int64
	for range 2 {
		for _, r := range (<-results).Results {
			checked += r.Checked
		}
	}
	if checked != 100 || w.outcomes()[jobs.OutcomeDone] != 100 {
		t.Errorf("%d checked, want 100", checked)
	}
}

// Slot 12:15 was run at 12:15. With slots of an hour the current slot is 12:00, but the clock was never ahead.
func TestSlotsOfANarrowerWidthDoNotLieBeyondTheClock(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(done))
	w.enqueue("job", slot(1), 1)
	w.run(slot(1))
	hour, err := grid.New(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.ledger.SetWidth(t.Context(), hour); err != nil {
		t.Fatal(err)
	}
	if w.ledger, err = ledger.New(t.Context(), w.db, "", w.clock.Now); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		clock time.Time
		want  int64
	}{{slot(1).Add(time.Minute), 0}, {slot(1).Add(-time.Minute), 1}} {
		w.clock.Set(test.clock)
		if a, err := w.ledger.Ahead(t.Context()); err != nil || a.Slots != test.want {
			t.Errorf("%s: %d slots lie ahead, %v, want %d", test.clock, a.Slots, err, test.want)
		}
		if n, err := w.ledger.Rewind(t.Context()); err != nil || n != test.want {
			t.Errorf("%s: %d slots were forgotten, %v, want %d", test.clock, n, err, test.want)
		}
	}
}

// The clock was ahead, and the run of the slot has handed its claim back.
func TestASlotThatTheLedgerHasForgottenBeginsWithoutTheClaimsOfBefore(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(done))
	w.enqueue("job", slot(1), 2)
	number := w.count(`select prescient.find_job('job')`)
	claim := func(token int) {
		t.Helper()
		w.db.MustExec(`select prescient.open_slot($1, 'run', $2, 'me', '1 hour', $1)`, slot(1), 10*token)
		var rows int64
		err := w.db.Get(&rows, `select rows from prescient.claim_rows($1, 'run', $2, 'me', '1 hour', array[$3::bigint], 10)`, slot(1), token, number)
		if err != nil || rows != 2 {
			t.Fatalf("%d rows were claimed, %v", rows, err)
		}
	}
	claim(1)
	w.db.MustExec(`update prescient.slot_claim set allocated_until = 'epoch'`)
	w.clock.Set(slot(0))
	if n, err := w.ledger.Rewind(t.Context()); err != nil || n != 1 {
		t.Fatalf("%d slots were forgotten, %v", n, err)
	}
	claim(2)
	var taken int64
	err := w.db.Get(&taken, `select count(*) from prescient.take_over($1, 'run', 3, 'other', '1 hour', array[$2::bigint]) where jobs is not null`, slot(1), number)
	if err != nil || taken != 0 {
		t.Errorf("%d rows are in two claims, %v", taken, err)
	}
}

func TestAWidthChangeRealignsWaitingRowsAndTheLedgerGoesOn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(done))
	w.enqueue("job", slot(1), 3) // 12:15
	w.run(slot(1))
	w.enqueue("job", slot(3), 3) // 12:45
	hour, err := grid.New(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	moved, err := w.ledger.SetWidth(t.Context(), hour)
	if err != nil || moved != 3 {
		t.Fatalf("moved %d, %v", moved, err)
	}
	for _, job := range w.waiting() {
		if !job.NextCheckAt.Equal(slot(4)) || !job.FirstCheckAt.Equal(slot(3)) {
			t.Errorf("waits until %s, first %s", job.NextCheckAt, job.FirstCheckAt)
		}
	}
	if result := w.run(slot(4)); result.Finished != 3 {
		t.Errorf("13:00: %+v", result)
	}
	w.db.MustExec(`update prescient.slot_run set opened_at = '2030-03-01 12:15Z', finished_at = '2030-03-01 13:05Z' where slot = $1`, slot(1))
	w.db.MustExec(`update prescient.slot_job set last_at = '2030-03-01 13:05Z' where slot = $1`, slot(1))
	if at, took, err := w.ledger.Took(t.Context(), slot(0)); err != nil || !at.Equal(slot(4)) {
		t.Errorf("of the slots of this width %s took longest, %s: %v", at, took, err)
	}
	if w.ledger, err = ledger.New(t.Context(), w.db, "", w.clock.Now); err != nil {
		t.Fatal(err)
	}
	w.clock.Set(slot(5))
	if s := w.status(); !s.OK() || s.Grid != hour {
		t.Errorf("the status: %+v", s)
	}
	w.db.MustExec(`insert into prescient.slot_run (slot, state, kind, planned) values ('` + slot(8).Format(time.RFC3339) + `', 'open', 'run', 1)`)
	if _, err := w.ledger.SetWidth(t.Context(), grid.Default); err == nil {
		t.Error("the width was changed while a slot is open")
	}
}

// A clock may be set back while a slot is caught up on.
func TestACatchUpThatDefersNeverMovesARowToAnEarlierSlot(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(done))
	w.enqueue("job", slot(5), 3)
	w.clock.Set(slot(6))
	faults := pgtest.OpenFaults(t, w.url, pgtest.Unprepared)
	faults.Set(pgtest.Fault{
		At: 1, Kind: pgtest.SomebodyFirst, First: func() { w.clock.Set(slot(2)) },
		Of: func(text string) bool { return strings.Contains(text, "claim_rows") },
	})
	r := w.runner(func(c *slots.Config) { c.DB = faults.DB })
	if _, err := r.CatchUp(t.Context(), slots.CatchUp{Mode: slots.ModeDefer}); err != nil {
		t.Fatal(err)
	}
	if k, _ := faults.Hit(); k == 0 {
		t.Error("nothing was claimed")
	}
	for _, job := range w.waiting() {
		if !job.NextCheckAt.After(slot(5)) {
			t.Errorf("order %s waits for slot %s, and was asked for at %s", job.EntityKey, job.NextCheckAt, slot(5))
		}
	}
}

// The slot stays open until the rows of a job that no run knows are cancelled. More workers would not have ended it
// earlier.
func TestASlotThatWaitedForAnUnknownJobDidNotTakeLong(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]int{"beside others": 3, "alone": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.registry.Register("job", jobs.Row(done))
			w.enqueue("job", slot(1), known)
			w.enqueue("misspelt", slot(1), 1)
			if result := w.run(slot(1)); result.State != slots.StateOpen {
				t.Fatalf("%+v", result)
			}
			w.db.MustExec(`delete from prescient.future_job`)
			w.clock.Set(slot(2))
			if result := w.run(slot(1)); result.State != slots.StateDone {
				t.Fatalf("%+v", result)
			}
			// The first run was an hour ago, on the clock of the database.
			w.db.MustExec(`update prescient.slot_run set opened_at = (opened_at at time zone 'UTC' - interval '1 hour') at time zone 'UTC'`)
			w.db.MustExec(`update prescient.slot_job set last_at = (last_at at time zone 'UTC' - interval '1 hour') at time zone 'UTC'`)
			if at, took, err := w.ledger.Took(t.Context(), slot(0)); err != nil || !at.Equal(slot(1)) || took > time.Minute {
				t.Errorf("slot %s took %s: %v", at, took, err)
			}
			w.db.MustExec(`update prescient.slot_run set worked = '0', resumed_at = null`) // as if a runner had stayed
			w.db.MustExec(`update prescient.slot_job set last_at = (last_at at time zone 'UTC' + interval '1 hour') at time zone 'UTC' where last_at is not null`)
			if _, took, err := w.ledger.Took(t.Context(), slot(0)); err != nil || (took >= time.Hour) != (known > 0) {
				t.Errorf("with an outcome an hour after it was opened: %s, %v", took, err)
			}
		})
	}
}

// Catch-up does the rows that a run has left. More runners would not have ended the slot earlier.
func TestASlotThatCatchUpFinishesDidNotTakeTheTimeInBetween(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(done))
	w.enqueue("job", slot(1), 3)
	w.enqueue("later", slot(1), 1)
	if result := w.run(slot(1)); result.State != slots.StateOpen {
		t.Fatalf("%+v", result)
	}
	// The first run took 20 minutes, and it was three hours ago, on the clock of the database.
	w.db.MustExec(`update prescient.slot_run set opened_at = (opened_at at time zone 'UTC' - interval '3 hours') at time zone 'UTC'`)
	w.db.MustExec(`update prescient.slot_progress set recorded_at = (recorded_at at time zone 'UTC' - interval '2 hours 40 minutes') at time zone 'UTC'`)
	w.clock.Set(slot(2))
	for known := range 2 { // the first one does not know the job either
		if known == 1 {
			w.registry.Register("later", jobs.Row(done))
		}
		if _, err := w.runner().CatchUp(t.Context(), slots.CatchUp{}); err != nil {
			t.Fatal(err)
		}
	}
	if s := w.status(); !s.OK() {
		t.Fatalf("%+v", s)
	}
	at, took, err := w.ledger.Took(t.Context(), slot(0))
	if err != nil || !at.Equal(slot(1)) || took < 20*time.Minute || took > 21*time.Minute {
		t.Errorf("slot %s took %s: %v", at, took, err)
	}
}

// The ledger begins late if the clock was ahead when the tables were made. Its first slots are no gaps.
func TestEachSlotWithRowsBeforeTheLedgerIsMissed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	w.registry.Register("paused", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	w.run(slot(1))
	w.db.MustExec(`update prescient.setting set since = $1`, slot(6))
	for n, job := range map[int]string{2: "paused", 3: "job", 5: "job"} {
		w.db.MustExec(`insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at)
			values (prescient.ensure_job($1), 'order', $3, $2, $2)`, job, slot(n), strconv.Itoa(n))
	}
	w.clock.Set(slot(8).Add(time.Minute))
	missed := func(n int) slots.MissedSlot { return slots.MissedSlot{Slot: slot(n), State: slots.StateMissed} }
	trouble := func(n int, job string) ledger.Trouble {
		return ledger.Trouble{Slot: slot(n), State: slots.StateMissed, Jobs: []ledger.JobCount{{JobExec: job, Waiting: ledger.Count{N: 1}}}}
	}
	gaps := []ledger.Trouble{{Slot: slot(6), State: slots.StateMissed}, {Slot: slot(7), State: slots.StateMissed}}
	wants := func(early ...ledger.Trouble) {
		t.Helper()
		s := w.status()
		if diff := cmp.Diff(append(early, gaps...), s.Trouble); diff != "" || s.MoreMissed != 0 || s.MoreOpen != 0 {
			t.Errorf("%d missed and %d open more; %s", s.MoreMissed, s.MoreOpen, diff)
		}
	}
	wants(trouble(2, "paused"), trouble(3, "job"), trouble(5, "job"))
	w.db.MustExec(`update prescient.job set paused_at = now(), paused_by = 'me' where name = 'paused'`)
	wants(trouble(3, "job"), trouble(5, "job"))

	want := slots.Caught{Empty: 2, Slots: []slots.MissedSlot{missed(2), missed(3), missed(5)}}
	if diff := cmp.Diff(want, w.catchUp(slots.CatchUp{DryRun: true})); diff != "" {
		t.Error(diff)
	}
	if caught := w.catchUp(slots.CatchUp{}); caught.Empty != 2 || caught.Total.Finished != 2 {
		t.Errorf("caught: %+v", caught)
	}
	if s := w.status(); !s.OK() {
		t.Errorf("after catch-up: %+v", s.Trouble)
	}
}

// Seventy days of outage at slots of a minute.
// Not parallel, since it measures the memory of the process.
func TestCatchUpListsTheFirstOfManyMissedSlots(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes 100,000 rows")
	}
	w := setup(t)
	w.db.MustExec(`select prescient.set_width('1 min')`)
	w.db.MustExec(`update prescient.setting set since = '2030-03-02 00:00:00Z'`)
	w.db.MustExec(`insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at)
		select (select prescient.ensure_job('job')), 'order', n::text, at, at
		from generate_series(1, 100000) as n
		cross join lateral (select timestamptz '2030-03-02 00:00:00Z' + n * interval '1 min') as slot (at)`)
	w.clock.Set(time.Date(2030, time.March, 2, 0, 100_002, 0, 0, time.UTC))
	w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	r := w.runner()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	caught, err := r.CatchUp(t.Context(), slots.CatchUp{DryRun: true})
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	const all, missed = 100_000, 100_002
	if n := int64(len(caught.Slots)); n != pg.MostMissed || n+caught.MoreSlots != all || caught.Empty != missed-all {
		t.Errorf("%d slots, %d more and %d empty; want %d, %d and %d", n, caught.MoreSlots, caught.Empty, pg.MostMissed, all-pg.MostMissed, missed-all)
	}
	if mib := float64(after.TotalAlloc-before.TotalAlloc) / (1 << 20); mib > 8 {
		t.Errorf("the list took %.1f MiB", mib)
	}

	// The rest is caught up on, too.
	w.db.MustExec(`delete from prescient.future_job where id % 10 = 0 or entity_key::int > $1`, pg.MostMissed*5/4)
	n := int64(w.count(`select count(*) from prescient.future_job`))
	results := int64(0)
	caught = w.catchUp(slots.CatchUp{After: func(slots.Result) { results++ }})
	want := slots.Total{Slots: n, Done: n, Checked: n, Finished: n}
	if caught.Total != want || results != n || len(caught.Slots) != pg.MostMissed || len(caught.Results) != pg.MostMissed ||
		caught.MoreSlots != n-pg.MostMissed {
		t.Errorf("%+v with %d slots, %d more and %d results; want %+v", caught.Total, len(caught.Slots), caught.MoreSlots, len(caught.Results), want)
	}
}

// Three days of outage at slots of a second: no transaction records all of them.
func TestAStoppedCatchUpGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.db.MustExec(`select prescient.set_width('1 s')`)
	const all = 250_000
	w.db.MustExec(`update prescient.setting set since = '2030-03-02 00:00:00Z'`)
	w.clock.Set(time.Date(2030, time.March, 2, 0, 0, all, 0, time.UTC))
	r := w.runner()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := r.CatchUp(ctx, slots.CatchUp{})
		done <- err
	}()
	recorded := func() int { return w.count(`select count(*) from prescient.slot_run`) }
	for recorded() == 0 {
		select {
		case err := <-done:
			t.Fatal("catch-up recorded all slots at once: ", err)
		default:
		}
	}
	stop()
	if err := <-done; !errors.Is(err, slots.ErrStopped) {
		t.Fatal(err)
	}
	before := recorded()
	caught := w.catchUp(slots.CatchUp{})
	if n := recorded(); n != all || caught.Empty != int64(all-before) {
		t.Errorf("%d of %d slots were recorded, and then %d of %d", before, all, caught.Empty, n)
	}
}

// The clock is an hour ahead when catch-up chooses its slots, and right when it writes them.
func TestCatchUpRecordsNoSlotThatHasNotBegunWhenItWrites(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var ahead atomic.Bool
	runner := w.runner(func(c *slots.Config) {
		c.Now = func() time.Time {
			if ahead.Swap(false) {
				return slot(8)
			}
			return slot(4)
		}
	})
	ahead.Store(true)
	caught, err := runner.CatchUp(t.Context(), slots.CatchUp{})
	if err != nil {
		t.Fatal(err)
	}
	var last time.Time
	if err := w.db.Get(&last, "select max(slot) from prescient.slot_run"); err != nil {
		t.Fatal(err)
	}
	if !last.Equal(slot(3)) {
		t.Errorf("catch-up recorded %d empty slots, the last of which is %s: it is %s", caught.Empty, last, slot(4))
	}
}
