package demo

import (
	"context"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
)

const (
	unshipped  = "order.unshipped"
	orderCount = 160
	// Orders come until some hours before the end.
	ordering = 42 * time.Hour
	// When an unshipped order raises its alerts, counted from its placement.
	primary = 6 * time.Hour
	final   = 12 * time.Hour
)

// start is the Monday on which the story begins.
var start = time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)

//go:embed tables.sql
var tables string

// shop holds the tables of the story, in the schema of its replay.
type shop struct {
	schema string
}

func (s shop) sql(text string) string { return strings.ReplaceAll(text, "shop.", s.schema+".") }

type order struct {
	id      int
	placed  time.Time
	shipped time.Time // zero: never
}

// generate returns orders in the order of their placement. Most are shipped in time, some late, a
// few never.
func generate(seed uint64) []order {
	r := rand.New(rand.NewPCG(seed, 0))
	orders := make([]order, orderCount)
	for i := range orders {
		orders[i].placed = start.Add(time.Duration(r.Int64N(int64(ordering)))).Truncate(time.Second)
		within := time.Duration(r.Int64N(int64(primary)))
		switch n := r.IntN(100); {
		case n < 80:
			orders[i].shipped = orders[i].placed.Add(within)
		case n < 93:
			orders[i].shipped = orders[i].placed.Add(primary + within)
		}
	}
	slices.SortFunc(orders, func(a, b order) int { return a.placed.Compare(b.placed) })
	for i := range orders {
		orders[i].id = 1001 + i
	}
	return orders
}

// check reads whether an order was shipped, raises an alert if it was not, and returns when to look
// again. Its writes, and the message to a person, are committed together with its outcome.
func (s shop) check(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
	var o struct {
		Placed  time.Time `db:"placed_at"`
		Shipped bool      `db:"shipped"`
	}
	query := s.sql(`select placed_at, shipped_at is not null as shipped from shop.orders where id = $1::integer`)
	if err := tx.GetContext(ctx, &o, query, job.EntityKey); err != nil {
		return nil, fmt.Errorf("read order %s: %w", job.EntityKey, err)
	}
	if o.Shipped {
		return nil, nil
	}
	alert, next := "primary", new(o.Placed.Add(final))
	if job.CheckCount > 0 {
		alert, next = "final", nil
	}
	_, err := tx.ExecContext(ctx,
		s.sql(`insert into shop.alerts (order_id, alert, slot, caught_up, late) values ($1::integer, $2, $3, $4, $5)`),
		job.EntityKey, alert, job.Slot, job.CaughtUp, job.Lateness)
	if err == nil {
		err = s.tellOps(ctx, tx, job, alert, o.Placed)
	}
	return next, err
}

// place writes an order and enqueues its check, in the caller's transaction.
func (t *teller) place(ctx context.Context, tx *sqlx.Tx, o order) (jobs.EnqueueResult, error) {
	if _, err := tx.ExecContext(ctx, t.shop.sql(`insert into shop.orders (id, placed_at) values ($1, $2)`),
		o.id, o.placed); err != nil {
		return jobs.EnqueueResult{}, err
	}
	job := jobs.Request{
		JobExec: unshipped, EntityName: "orders", EntityKey: strconv.Itoa(o.id),
		CheckAt: o.placed.Add(primary),
	}
	return t.Client.Enqueue(ctx, tx, job)
}

func (s shop) ship(ctx context.Context, tx *sqlx.Tx, o order) error {
	_, err := tx.ExecContext(ctx, s.sql(`update shop.orders set shipped_at = $2 where id = $1`), o.id, o.shipped)
	return err
}

type alert struct {
	Order    int           `db:"order_id"`
	Alert    string        `db:"alert"`
	Slot     time.Time     `db:"slot"`
	CaughtUp bool          `db:"caught_up"`
	Late     time.Duration `db:"late"`
}

func (s shop) alerts(ctx context.Context, db *sqlx.DB) ([]alert, error) {
	var list []alert
	err := db.SelectContext(ctx, &list,
		s.sql(`select order_id, alert, slot, caught_up, late from shop.alerts order by slot, order_id`))
	return list, err
}
