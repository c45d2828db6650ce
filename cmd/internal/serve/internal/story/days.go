package story

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
)

const width = 15 * time.Minute

// Live lets the shop live for some hours in which all goes well, 48 at the most, and asks for what
// comes on the next day.
func (w *World) Live(hours int) {
	w.t.Helper()
	w.Clock.Set(w.Now().Add(time.Duration(48-hours) * time.Hour))
	w.must(w.Ledger.Begin(w.t.Context(), w.Client.Grid().Next(w.Now())))
	var list []jobs.Request
	for slot := w.Client.Grid().Next(w.Now()); slot.Before(w.Now().Add(time.Duration(hours+
		24) * time.Hour)); slot = slot.Add(width) {
		list = append(list, orders(slot, len(list))...)
	}
	for len(list) > 0 {
		n := min(1000, len(list))
		_, err := w.Client.EnqueueMany(w.t.Context(), jobs.OwnTx(w.DB), list[:n])
		w.must(err)
		list = list[n:]
	}
	for _, s := range []schedule.Spec{
		{
			ID: "report-42", Crontab: "0 9 * * mon-fri", Timezone: "Europe/Berlin",
			Payload: json.RawMessage(`{"report": 42}`),
		},
		{ID: "stock-feed", Crontab: "*/30 * * * *"},
		{ID: "newsletter", Crontab: "0 8 * * tue"},
	} {
		_, err := w.Schedules.Create(w.t.Context(), w.DB, s)
		w.must(err)
	}
	w.RunFor(time.Duration(hours)*time.Hour + 7*time.Minute)
	// The ledger has the times of the database, at which the days took seconds: as if each slot had
	// been run in its time.
	_, err := w.DB.Exec(`
		update prescient.slot_run as r
		set opened_at = e.opened_at, finished_at = e.finished_at
		from (
			select slot, slot + interval '1 second' as opened_at,
				slot + interval '1 second' + (finished_at - opened_at) as finished_at
			from prescient.slot_run
			offset 0 -- or Citus sees that columns are updated by functions of others, and refuses it
		) as e
		where e.slot = r.slot`)
	w.must(err)
	_, err = w.DB.Exec(`
		update prescient.slot_job -- Citus updates no column by a sum that depends on the time zone of the session
		set first_at = (slot at time zone 'UTC' + interval '1 second') at time zone 'UTC',
			last_at = (slot at time zone 'UTC' + interval '1 second' + (last_at - first_at)) at time zone 'UTC'`)
	w.must(err)
	var written int
	w.must(w.DB.Get(&written, `select count(*) from prescient.event_outbox`))
	var events []outbox.Stored
	for len(events) < min(written, 1000) { // others on the server hold them back for a moment
		events, err = w.Outbox.Read(w.t.Context(), outbox.Position{}, 1000)
		w.must(err)
	}
	_, err = w.Outbox.Ack(w.t.Context(), "mailer", events[max(0, len(events)-4)].Position)
	w.must(err)
}

// orders are the checks of a slot: many by day, few by night.
func orders(slot time.Time, from int) (list []jobs.Request) {
	day := 1 - math.Cos(2*math.Pi*float64(slot.Hour()*60+slot.Minute()-180)/1440)
	for i := range int(4 + 16*day) {
		job := []string{"order.unshipped", "order.unshipped", "cart.abandoned", "review.ask", "invoice.unpaid"}[i%5]
		list = append(list, jobs.Request{
			JobExec: job, EntityName: "order",
			EntityKey: fmt.Sprint(10_000 + from + i), CheckAt: slot,
		})
	}
	return list
}

// Trouble adds everything that can be wrong, and runs the slot that has begun, which then is at
// work.
func (w *World) Trouble() {
	w.t.Helper()
	for i := range 6 {
		w.Enqueue(jobs.Request{
			JobExec: "invoice.unpaid", EntityName: "invoice", EntityKey: fmt.Sprint(700 + i),
			Payload: json.RawMessage(`{"broken": true}`),
		}, w.Now().Add(width))
	}
	for i := range 3 {
		w.Enqueue(jobs.Request{JobExec: "order.unshiped", EntityName: "order", EntityKey: fmt.Sprint(90 + i)},
			w.Now().Add(7*time.Hour))
	}
	w.RunFor(2 * width)
	w.Clock.Set(w.Now().Add(5 * width)) // no runner runs in them
	_, err := admin.New(w.Client).Pause(w.t.Context(), w.DB, "review.ask")
	w.must(err)
	_, err = w.Schedules.Pause(w.t.Context(), w.DB, "newsletter", 0)
	w.must(err)
	w.Enqueue(jobs.Request{JobExec: "stock.slow", EntityName: "shelf", EntityKey: "7"}, w.Now())
	w.Clock.Set(w.Client.Grid().Next(w.Now()))
	w.work()
}

// work runs the slot that has begun, and returns while it is being run.
func (w *World) work() {
	w.t.Helper()
	slot := w.Client.Grid().Floor(w.Now())
	ended := make(chan error)
	go func() {
		_, err := w.Runner.Run(context.WithoutCancel(w.t.Context()), slot)
		ended <- err
	}()
	w.t.Cleanup(func() {
		close(w.blocked)
		if err := <-ended; err != nil {
			w.t.Errorf("the run ended with %v", err)
		}
	})
	for w.t.Context().Err() == nil {
		claims, err := w.Ledger.Claims(w.t.Context(), slot)
		w.must(err)
		for _, c := range claims {
			if len(c.Jobs) > 0 {
				return
			}
		}
	}
}

// Leftovers adds what days leave behind that no finding tells of any more: rows that ended in each
// way, an entity of a group, one without a key, a schedule that dropped events, and others that
// were given up or have ended. It returns the checks.
func (w *World) Leftovers() []jobs.Request {
	w.t.Helper()
	ctx := w.t.Context()
	for _, s := range []schedule.Spec{
		{ID: "late-feed", Crontab: "*/15 * * * *", Timezone: "America/New_York", Deadline: time.Minute},
		{ID: "twice", Crontab: "*/15 * * * *", MaxRuns: 2},
	} {
		_, err := w.Schedules.Create(ctx, w.DB, s)
		w.must(err)
	}
	checks := []jobs.Request{
		{JobExec: "parcel.pack", EntityName: "parcel", EntityKey: "1", GroupKey: "van 7"},
		{JobExec: "parcel.pack", EntityName: "parcel", EntityKey: "2", GroupKey: "van 7"},
		{JobExec: "review.ask", EntityName: "order", EntityKey: "no key", Anonymous: true},
		{JobExec: "review.ask", EntityName: "order", EntityKey: "cancelled"},
		{JobExec: "review.ask", EntityName: "order", EntityKey: "replaced"},
		{JobExec: "review.ask", EntityName: "order", EntityKey: "moved", ItemKey: "a b&c"},
		{JobExec: "cart.kept", EntityName: "cart", EntityKey: "too often"},
		{JobExec: "order.unshiped", EntityName: "order", EntityKey: "left open"},
	}
	for _, j := range checks {
		w.Enqueue(j, w.Now().Add(width))
	}
	review := jobs.Key{JobExec: "review.ask", EntityName: "order", EntityKey: "cancelled"}
	_, err := w.Client.Cancel(ctx, jobs.OwnTx(w.DB), review)
	w.must(err)
	again := jobs.Request{
		JobExec: "review.ask", EntityName: "order", EntityKey: "replaced",
		CheckAt: w.Now().Add(2 * width),
	}
	_, err = w.Client.Enqueue(ctx, jobs.OwnTx(w.DB), again, jobs.Replace)
	w.must(err)
	_, _, err = w.Client.Reschedule(ctx, jobs.OwnTx(w.DB), jobs.Key{
		JobExec: "review.ask", EntityName: "order",
		EntityKey: "moved", ItemKey: "a b&c",
	}, w.Now().Add(3*width))
	w.must(err)
	w.RunFor(3 * width)
	w.Clock.Set(w.Now().Add(3 * width)) // no runner runs in them
	w.RunDue()
	_, err = w.DB.Exec(`
		insert into prescient.future_job_history (id, job_exec, entity_name, entity_key, item_key, first_check_at, slot,
			check_count, error_count, last_error, spent, enqueued_at, enqueued_by, outcome, runner)
		values (-1, 'schedule', 'schedule', 'deleted', '', $1, $1,
			0, 6, 'no such zone', '1 s', $1, 'shop', 'failed', 'here')`, w.Client.Grid().Floor(w.Now()))
	w.must(err)
	return checks
}
