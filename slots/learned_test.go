package slots_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/learn"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

const day = 24 * time.Hour

// shipment is a check that waits for orders to be shipped, which they never are, and asks for its next look in a while.
type shipment struct {
	*world
	after time.Duration // from one check to the next that it asks for
	first time.Time
	looks []time.Duration // of the last order, from its first slot on
}

// learns registers the check of shipments.
func (w *world) learns(after time.Duration, opts ...jobs.Option) *shipment {
	s := &shipment{world: w, after: after}
	w.registry.Register("ship", func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		s.looks = append(s.looks, job.Slot.Sub(s.first))
		return new(job.Slot.Add(s.after)), nil
	}, append([]jobs.Option{jobs.Learned(day, 10*day), jobs.Concurrency(1), jobs.MaxChecks(20)}, opts...)...)
	return s
}

// past puts rows into history that were finished after so many days, by turns, and looked at once a day.
func (w *world) past(n int, carrier string, days ...int) {
	w.t.Helper()
	_, err := w.db.ExecContext(w.t.Context(), `
		insert into prescient.future_job_history (
			id, job_exec, entity_name, entity_key, item_key, first_check_at, slot, check_count, error_count, spent, payload,
			enqueued_at, enqueued_by, trace, outcome, lateness, duration
		)
		select
			n, 'ship', 'order', n, '', begun, begun + days * interval '1 day', days + 1, 0, interval '0', json_build_object('carrier', $2::text),
			begun, 'shop',
			(select string_agg(format('["next",%s,"here",0,0]', extract(epoch from begun + d * interval '1 day')::bigint), chr(10) order by d)
				from generate_series(0, days - 1) as d),
			'done', interval '0', interval '0'
		from generate_series(1, $1) as n, lateral (select timestamptz '2030-01-01' as begun, ($3::int[])[1 + n % cardinality($3::int[])] as days) as took`,
		n, carrier, "{"+strings.Trim(fmt.Sprint(strings.ReplaceAll(fmt.Sprint(days), " ", ",")), "[]")+"}")
	if err != nil {
		w.t.Fatal(err)
	}
}

// learn makes the curves anew.
func (w *world) learn() {
	w.t.Helper()
	var list []*jobs.Definition
	for d := range w.registry.All() {
		list = append(list, d)
	}
	if n, _, err := learn.Refresh(w.t.Context(), w.db, "", list, w.clock.Now(), w.clock.Now(), learn.Bounds{}); n != len(list) || err != nil {
		w.t.Fatalf("%d jobs learned, want %d: %v", n, len(list), err)
	}
}

// order asks for checks of an order from the next slot on, and runs as many of them.
func (s *shipment) order(carrier string, checks int) []time.Duration {
	s.t.Helper()
	s.looks, s.first = nil, slotGrid.Next(s.clock.Now())
	if _, err := s.client.CancelEntity(s.t.Context(), s.db, "order", "new"); err != nil {
		s.t.Fatal(err)
	}
	job := jobs.FutureJob{JobExec: "ship", EntityName: "order", EntityKey: "new", CheckAt: s.first}
	if err := job.SetPayload(map[string]any{"carrier": carrier}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.client.Enqueue(s.t.Context(), s.db, job, jobs.Keep); err != nil {
		s.t.Fatal(err)
	}
	for range checks {
		if waiting := s.waiting(); len(waiting) > 0 {
			s.run(waiting[0].NextCheckAt())
		}
	}
	return s.looks
}

func days(list ...int) (looks []time.Duration) {
	for _, n := range list {
		looks = append(looks, time.Duration(n)*day)
	}
	return looks
}

func TestWithoutHistoryARowIsCheckedWhenItsFunctionAskedForIt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.learns(3 * day)
	w.past(29, "ups", 1) // too little
	if diff := cmp.Diff(days(0, 3, 6, 9), s.order("ups", 4)); diff != "" {
		t.Error(diff)
	}
}

func TestARowIsLookedAtWhenMostOfThoseLikeItHaveEnded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.learns(100*day, jobs.MaxChecks(6)) // three looks: 90 %, 97 % and 99.9 % of what is left
	w.past(100, "ups", append(slices.Repeat([]int{2}, 19), 5)...)
	w.learn()
	if diff := cmp.Diff(days(0, 2, 5, 15, 115), s.order("ups", 5)); diff != "" {
		t.Error(diff)
	}
	story, err := w.client.Why(t.Context(), w.db, jobs.Key{EntityName: "order", EntityKey: "new"})
	if err != nil {
		t.Fatal(err)
	}
	var told []*jobs.Look
	for _, e := range story {
		if e.What == "next" {
			told = append(told, e.Learned)
		}
	}
	at := func(n int) time.Time { return slot(1).Add(time.Duration(n) * day) }
	want := []*jobs.Look{
		{Next: at(2), Latest: at(100), Percent: 95},
		{Next: at(5), Latest: at(102), Percent: 100},
		{Next: at(15), Latest: at(105), Percent: 0},
		nil, nil,
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
}

func TestNothingIsLaterThanItsFunctionAskedFor(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.learns(4 * day)
	w.past(100, "ups", 30)
	w.learn()
	if diff := cmp.Diff(days(0, 4, 8, 12), s.order("ups", 4)); diff != "" {
		t.Error(diff)
	}
	w.past(100, "ups", 1)
	w.learn()
	s.after = time.Hour // less than the minimum
	if diff := cmp.Diff([]time.Duration{0, time.Hour, 2 * time.Hour}, s.order("ups", 3)); diff != "" {
		t.Error(diff)
	}
}

func TestLooksTakeHalfOfTheChecksAndTheRestIsForWhatTheFunctionAsksFor(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.learns(50*day, jobs.MaxChecks(9))
	w.past(300, "ups", 1, 2, 3, 4, 5, 6, 7, 8)
	w.learn()
	looks := s.order("ups", 20)
	if len(looks) != 9 {
		t.Fatalf("%d checks, want all of them: %v", len(looks), looks)
	}
	for i, at := range looks[1:] {
		if own := at-looks[i] == 50*day; own != (i >= 4) {
			t.Errorf("check %d comes %s after the one before: %v", i+2, at-looks[i], looks)
		}
	}
}

func TestALookIsNeverTheLastCheck(t *testing.T) {
	t.Parallel()
	w := setup(t)
	alerts := 0
	due := slot(1).Add(10 * day)
	w.registry.Register("ship", func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		if job.Slot.Before(due) {
			return &due, nil
		}
		alerts++
		return nil, nil
	}, jobs.Learned(day, 4*day), jobs.MaxChecks(3)) // fewer are refused
	w.past(100, "ups", 30)
	w.learn()
	w.enqueue("ship", slot(1), 1)
	for range 3 {
		for _, row := range w.waiting() {
			w.run(row.NextCheckAt())
		}
	}
	if n := w.outcomes()[jobs.TooManyChecks]; n > 0 || alerts != 1 {
		t.Errorf("%d alerts, %d rows had too many checks", alerts, n)
	}
}

func TestAMaximumMayBeAsLongAsAnyDuration(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.learns(100*day, jobs.Learned(day, math.MaxInt64))
	w.past(100, "ups", 1)
	w.learn()
	if diff := cmp.Diff(days(0, 1, 101, 201), s.order("ups", 4)); diff != "" {
		t.Error(diff)
	}
}

func TestAClassHasACurveOfItsOwnAndWhatIsUnknownGoesByThatOfTheJob(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.learns(100*day, jobs.MaxChecks(6), jobs.LearnedBy("carrier"))
	w.past(60, "slow", 8)
	w.past(200, "quick", 2)
	w.past(10, "rare", 9)
	w.learn()
	for carrier, want := range map[string]int{"slow": 8, "quick": 2, "rare": 8, "": 8} {
		if diff := cmp.Diff(days(0, want), s.order(carrier, 2)); diff != "" {
			t.Errorf("%q: %s", carrier, diff)
		}
	}
}

func TestWhatIsLearnedFollowsAChange(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.learns(100*day, jobs.MaxChecks(6))
	w.past(1000, "ups", 2)
	w.learn()
	if diff := cmp.Diff(days(0, 2), s.order("ups", 2)); diff != "" {
		t.Error(diff)
	}
	w.past(1000, "ups", 6) // half of what is known, and most of what is recent
	w.learn()
	if diff := cmp.Diff(days(0, 6), s.order("ups", 2)); diff != "" {
		t.Error(diff)
	}
}

// What an owner cancels is in no ledger.
func TestTheNewestRowsOfHistoryAreLearnedFromHoweverTheyEnded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.learns(100*day, jobs.MaxChecks(6))
	w.past(1000, "ups", 1)
	w.db.MustExecContext(t.Context(), `
		update prescient.future_job_history as h
		set outcome = 'cancelled', finished_at = e.at
		from (select id, finished_at - interval '20 days' as at from prescient.future_job_history offset 0) as e -- offset: Citus refuses it otherwise
		where e.id = h.id`)
	w.past(1000, "ups", 8)
	d, _ := w.registry.Lookup("ship")
	_, read, err := learn.Refresh(t.Context(), w.db, "", []*jobs.Definition{d}, w.clock.Now(), w.clock.Now(), learn.Bounds{Rows: 1000})
	if err != nil || read < 500 || read > 1000 {
		t.Fatalf("%d rows were read: %v", read, err)
	}
	if diff := cmp.Diff(days(0, 8), s.order("ups", 2)); diff != "" {
		t.Error(diff)
	}
}

// A run that cannot learn, or dies before it does, has recorded what it checked; the next one learns.
func TestARunLearnsOnceAnHourAndFailsForNothingThatGoesWrongInIt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.learns(time.Hour)
	w.past(100, "ups", 2)
	const lock = "alter table prescient.learned_curve rename to gone"
	if _, err := w.db.ExecContext(t.Context(), lock); err != nil {
		t.Fatal(err)
	}
	if got := s.order("ups", 2); len(got) != 2 {
		t.Fatalf("%v", got)
	}
	if _, err := w.db.ExecContext(t.Context(), "alter table prescient.gone rename to learned_curve"); err != nil {
		t.Fatal(err)
	}
	var computed []time.Time
	for n := range 4 {
		w.run(slot(9 + 2*n)) // rows are there in every other hour
		for _, row := range w.waiting() {
			w.run(row.NextCheckAt())
		}
		book, err := learn.Open(t.Context(), w.db, "", []*jobs.Definition{{Name: "ship"}})
		if err != nil || book["ship"][""] == nil {
			t.Fatalf("nothing was learned: %v, %v", book, err)
		}
		computed = append(computed, book["ship"][""].ComputedAt)
	}
	if !slices.IsSortedFunc(computed, time.Time.Compare) || computed[0].Equal(computed[3]) {
		t.Errorf("learned at %s", computed)
	}
}

func TestARunDoesNotWaitForCurvesThatAreLocked(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.learns(time.Hour)
	tx := w.db.MustBeginTx(t.Context(), nil)
	tx.MustExecContext(t.Context(), "lock table prescient.learned_curve in access exclusive mode")
	w.enqueue("ship", slot(1), 1)
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	w.clock.Set(slot(1))
	result, err := w.runner(func(c *slots.Config) { c.Lease = time.Second }).Run(ctx, slot(1))
	if err != nil || result.State != slots.StateDone || len(s.looks) != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
}

func TestARunnerLearnsWithTheRightsOfItsRoleAndAReaderReadsIt(t *testing.T) {
	t.Parallel()
	url := pgtest.Direct(t)
	rolesOf(t, url)
	reader, runner := withRole(t, url, pgsql.Reader), withRole(t, url, pgsql.Runner)
	registry := jobs.NewRegistry()
	registry.Register("ship", func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		return new(job.Slot.Add(time.Hour)), nil
	}, jobs.Learned(time.Hour, day))
	client, err := jobs.NewClient(t.Context(), runner, jobs.Config{Schema: roleSchema, Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Enqueue(t.Context(), runner, jobs.FutureJob{JobExec: "ship", EntityName: "order", EntityKey: "1", CheckAt: slot(1)}, jobs.Keep); err != nil {
		t.Fatal(err)
	}
	r, err := slots.NewRunner(t.Context(), slots.Config{DB: runner, Schema: roleSchema, Registry: registry, Now: func() time.Time { return slot(1) }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(t.Context(), slot(1)); err != nil {
		t.Fatal(err)
	}
	book, err := learn.Open(t.Context(), reader, roleSchema, []*jobs.Definition{{Name: "ship"}})
	if err != nil || book["ship"][""] == nil || len(book["ship"][""].Ages) > 0 {
		t.Errorf("%v, %v: want a curve without points, since there is no history", book, err)
	}
	if _, _, err := learn.Advise(t.Context(), reader, roleSchema, learn.Question{}, time.Hour); err != nil {
		t.Error(err)
	}
}
