package forecast_test

import (
	"cmp"
	"context"
	"encoding/csv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

const (
	realOrders = "../../../shared/data/northwind_orders.csv"
	resampled  = 100_000
	orderDays  = 28
)

// order is placed at an instant, and shipped at another, or never if that is zero.
type order struct {
	id              string
	placed, shipped time.Time
}

// drawOrders draws n of the real orders into four weeks. Each keeps its day of the week and the
// time it took to be shipped. The time of day is random, because the file does not have it.
func drawOrders(t *testing.T, n int) []order {
	t.Helper()
	file, err := os.Open(realOrders)
	if err != nil {
		t.Skip("the file of real orders is not here: ", err)
	}
	defer func() { _ = file.Close() }()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	atWork := func() time.Duration { // from 8 to 18, most at 13
		return 8*time.Hour + time.Duration((random.Float64()+random.Float64())*float64(5*time.Hour))
	}
	list := make([]order, n)
	for i := range list {
		line := lines[1+random.IntN(len(lines)-1)]
		placed, err := time.Parse(time.RFC3339, line[1])
		if err != nil {
			t.Fatal(err)
		}
		days := (int(placed.Weekday()) - int(start.Weekday()) + 7) % 7
		o := order{id: key(i), placed: start.AddDate(0, 0, days+7*random.IntN(orderDays/7)).Add(atWork())}
		if shipped, err := time.Parse(time.RFC3339, line[2]); err == nil {
			o.shipped = o.placed.Truncate(24 * time.Hour).Add(shipped.Sub(placed)).Add(atWork())
		}
		list[i] = o
	}
	slices.SortFunc(list, func(a, b order) int { return cmp.Or(a.placed.Compare(b.placed), cmp.Compare(a.id, b.id)) })
	return list
}

// Half of the orders have a check that finds out whether they are shipped. The others ask for two
// alerts, which are cancelled at the shipping.
func TestForecastsOfRealOrdersAreRight(t *testing.T) {
	t.Parallel()
	orders := drawOrders(t, resampled)
	byID := map[string]order{}
	for _, o := range orders {
		byID[o.id] = o
	}
	registry := jobs.NewRegistry()
	registry.Register("order.unshipped", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		results := make([]jobs.Result, len(batch))
		for i, row := range batch {
			o := byID[row.EntityKey]
			if final := o.placed.Add(120 * time.Hour); final.After(row.Slot) && (o.shipped.IsZero() || o.shipped.After(row.Slot)) {
				results[i].Next = &final
			}
		}
		return results, nil
	}))
	for _, name := range []string{"order.primary_alert", "order.final_alert"} {
		registry.Register(name, jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
			return make([]jobs.Result, len(batch)), nil
		}))
	}
	w := setup(t, registry)
	shipping := slices.DeleteFunc(slices.Clone(orders), func(o order) bool { return o.shipped.IsZero() || odd(o) })
	slices.SortFunc(shipping, func(a, b order) int { return a.shipped.Compare(b.shipped) })
	happen := func() { // events since the slot before
		var asked []jobs.Request
		for ; len(orders) > 0 && !orders[0].placed.After(w.Now()); orders = orders[1:] {
			asked = append(asked, w.ask(orders[0])...)
		}
		w.enqueue(asked)
		var gone pq.StringArray
		for ; len(shipping) > 0 && !shipping[0].shipped.After(w.Now()); shipping = shipping[1:] {
			gone = append(gone, shipping[0].id)
		}
		w.cancel(gone)
	}
	// No rows wait so early: the forecast is the usual number, of which three weeks are known.
	early := &prediction{lead: 73 * time.Hour, every: 24 * time.Hour, last: 7 * 24 * time.Hour, limit: 0.5}
	w.play(orderDays*24*time.Hour, happen, append(promises(), early)...)
}

func (w *world) ask(o order) []jobs.Request {
	if odd(o) {
		return []jobs.Request{w.check("order.unshipped", o.id, o.placed.Add(48*time.Hour))}
	}
	list := []jobs.Request{
		w.check("order.primary_alert", o.id, o.placed.Add(48*time.Hour)),
		w.check("order.final_alert", o.id, o.placed.Add(120*time.Hour)),
	}
	if !o.shipped.IsZero() {
		for i := range list {
			list[i].Payload = memo{At: w.Now().Unix(), Gone: o.shipped.Unix()}.payload()
		}
	}
	return list
}

func odd(o order) bool {
	n, _ := strconv.Atoi(o.id)
	return n%2 == 1
}

func (w *world) cancel(entities pq.StringArray) {
	w.t.Helper()
	if len(entities) == 0 {
		return
	}
	err := pgsql.InTx(w.t.Context(), w.db, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(w.t.Context(), `select prescient.cancel_entity('order', key) from unnest($1::text[]) as key order by key`, entities)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}
