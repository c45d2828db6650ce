package forecast_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// A mixed workload with schedules. Its jobs have days of different shapes. Their rows come long or
// just before their slot, ask for a next check, fail and retry, or go on for ever.
func TestForecastsOfAMixedWorkloadAreRight(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs the slots of five days")
	}
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	var to schedule.PublishConfig
	w := setup(t, mixedJobs(&to))
	to.Publisher = outbox.New(w.db, "")
	w.createSchedules()
	n := 0
	ask := func(list []jobs.Request, job string, count float64, at func() time.Time) []jobs.Request {
		for range poisson(random, count) {
			n++
			list = append(list, w.check(job, key(n), at()))
		}
		return list
	}
	var sensors []jobs.Request
	for i := range 500 {
		sensors = append(sensors, w.check("sensor.read", fmt.Sprint("sensor ", i), start.Add(time.Duration(i%4)*15*time.Minute)))
	}
	w.enqueue(sensors)
	w.play(5*24*time.Hour, func() {
		now := w.Now()
		hour := math.Mod(w.Ledger.Grid().Ceil(now).Sub(start).Hours(), 24)
		after := func(d, spread time.Duration) func() time.Time {
			return func() time.Time { return now.Add(d + time.Duration(random.Float64()*float64(spread))) }
		}
		shape := 1 + math.Sin((hour-9)/24*2*math.Pi) // most at 15:00, nothing at 3:00
		var list []jobs.Request
		list = ask(list, "cart.abandoned", 150*shape, after(30*time.Minute, time.Hour))
		list = ask(list, "payment.pending", 100*(2-shape), after(3*time.Hour, 30*time.Minute))
		list = ask(list, "parcel.arrived", 60*shape, after(20*time.Hour, 8*time.Hour))
		if hour == 18 { // all rows of the next day
			list = ask(list, "invoice.due", 3000, after(14*time.Hour, 4*time.Hour))
		}
		w.enqueue(list)
	}, promises()...)
}

// mixedJobs registers the jobs of the workload.
func mixedJobs(to *schedule.PublishConfig) *jobs.Registry {
	registry := jobs.NewRegistry()
	each := func(name string, check func(row jobs.FutureJob) jobs.Result, opts ...jobs.Option) {
		registry.Register(name, jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
			results := make([]jobs.Result, len(batch))
			for i, row := range batch {
				results[i] = check(row)
			}
			return results, nil
		}), opts...)
	}
	each("cart.abandoned", func(row jobs.FutureJob) jobs.Result {
		if row.ErrorCount == 0 && row.EntityKey[5] < '3' { // three of ten fail at first
			return jobs.Result{Err: errors.New("the shop does not answer")}
		}
		return jobs.Result{}
	})
	each("payment.pending", func(row jobs.FutureJob) jobs.Result {
		if row.CheckCount == 0 && row.EntityKey[5] < '5' { // half of them are checked again
			return jobs.Result{Next: new(row.Slot.Add(2 * time.Hour))}
		}
		return jobs.Result{}
	})
	each("parcel.arrived", func(jobs.FutureJob) jobs.Result { return jobs.Result{} })
	each("invoice.due", func(jobs.FutureJob) jobs.Result { return jobs.Result{} })
	each("sensor.read", func(row jobs.FutureJob) jobs.Result { return jobs.Result{Next: new(row.Slot.Add(time.Hour))} }, jobs.MaxChecks(math.MaxInt32))
	schedule.Register(registry, to)
	return registry
}

func (w *world) createSchedules() {
	w.t.Helper()
	store, err := schedule.NewStore(w.t.Context(), w.db, schedule.Config{Now: w.Now})
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = store.CreateAll(w.t.Context(), w.db, func(yield func(schedule.Spec) bool) {
		for i := range 400 {
			crontab := []string{"*/10 * * * *", "7 * * * *", "30 9 * * *", "@every 45m"}[i%4]
			if !yield(schedule.Spec{ID: fmt.Sprint("report ", i), Crontab: crontab, Anchor: start}) {
				return
			}
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// poisson returns a random count with the given mean.
func poisson(random *rand.Rand, mean float64) int {
	n := 0
	for sum := random.ExpFloat64(); sum < mean; sum += random.ExpFloat64() {
		n++
	}
	return n
}
