package jobs_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/exampletest"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// What the examples below are given by their application.
// TestTheExamplesRun gives it to them.
var (
	ctx      = context.Background()
	db       *sqlx.DB
	tx       *sql.Tx
	client   *jobs.Client
	placedAt time.Time
)

// The order and its check are written in one transaction: both, or neither.
func Example() {
	place := func(ctx context.Context, order string) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(ctx, `insert into orders (id) values ($1)`, order); err != nil {
			return err
		}
		check := jobs.Request{JobExec: "order.unshipped", EntityName: "orders", EntityKey: order, CheckAt: client.FromNow(48 * time.Hour)}
		if _, err := client.Enqueue(ctx, tx, check); err != nil {
			return err
		}
		return tx.Commit()
	}
	if err := place(ctx, "43"); err != nil {
		slog.Error("place the order", "error", err)
	}
}

func ExampleNewClient() {
	client, err := jobs.NewClient(ctx, db, jobs.Config{Horizon: 365 * 24 * time.Hour})
	if err != nil {
		slog.Error("open the checks", "error", err)
		return
	}
	slog.Info("checks are rounded up to slots", "width", client.Grid().Width())
}

// In the transaction that places the order, ask for a look at it two days later.
func ExampleClient_Enqueue() {
	check := jobs.Request{JobExec: "order.unshipped", EntityName: "orders", EntityKey: "42", CheckAt: client.FromNow(48 * time.Hour)}
	enqueued, err := client.Enqueue(ctx, tx, check)
	if err != nil {
		slog.Error("ask for the check", "error", err)
		return
	}
	slog.Info("the order will be looked at", "slot", enqueued.Slot, "action", enqueued.Action)
}

// A second request for a key that waits ends the waiting row as replaced, and its check gets the new
// payload.
func ExampleClient_Enqueue_replace() {
	check := jobs.Request{JobExec: "order.unshipped", EntityName: "orders", EntityKey: "42", CheckAt: client.FromNow(72 * time.Hour)}
	if err := check.SetPayload(map[string]string{"carrier": "another one"}); err != nil {
		slog.Error("encode the payload", "error", err)
		return
	}
	enqueued, err := client.Enqueue(ctx, tx, check, jobs.Replace)
	if err != nil {
		slog.Error("replace the check", "error", err)
		return
	}
	slog.Info("the order has another check", "slot", enqueued.Slot, "action", enqueued.Action) // replaced, or inserted
}

// A survey is sent at most once in 30 days. Any slot within eight hours will do.
func ExampleClient_Enqueue_notAgain() {
	check := jobs.Request{
		JobExec: "survey.send", EntityName: "customer", EntityKey: "7", CheckAt: client.Now(),
		Within: 8 * time.Hour, UnlessEndedWithin: 30 * 24 * time.Hour,
	}
	enqueued, err := client.Enqueue(ctx, tx, check)
	if err != nil {
		slog.Error("ask for the survey", "error", err)
		return
	}
	if enqueued.Action == jobs.ActionRecent {
		slog.Info("the customer was asked lately", "slot", enqueued.Slot)
	}
}

// A stream of any length is enqueued in bounded memory, and in one transaction.
func ExampleClient_EnqueueAll() {
	invoices := func(yield func(jobs.Request) bool) {
		for number := range 20_000 {
			check := jobs.Request{
				JobExec: "invoice.unpaid", EntityName: "invoice", EntityKey: fmt.Sprint(number), CheckAt: client.FromNow(14 * 24 * time.Hour),
			}
			if !yield(check) {
				return
			}
		}
	}
	counts, err := client.EnqueueAll(ctx, tx, invoices)
	slog.Info("the invoices will be looked at", "inserted", counts.Inserted, "kept", counts.Kept, "error", err)
}

// The application never cancels these checks, so they need no key and are cheaper without one.
func ExampleClient_EnqueueMany() {
	var checks []jobs.Request
	for order := range 5000 {
		checks = append(checks, jobs.Request{
			JobExec: "order.unshipped", EntityName: "orders", EntityKey: fmt.Sprint(order), Anonymous: true,
			CheckAt: placedAt.Add(48 * time.Hour),
		})
	}
	_, err := client.EnqueueMany(ctx, tx, checks)
	if bad, ok := errors.AsType[*jobs.BulkError](err); ok {
		for _, request := range bad.Requests {
			slog.Error("a check was refused, so none was written", "order", checks[request.Index].EntityKey, "error", request.Err)
		}
	}
}

func ExampleClient_Cancel() {
	key := jobs.Key{JobExec: "order.unshipped", EntityName: "orders", EntityKey: "42"}
	found, err := client.Cancel(ctx, tx, key)
	slog.Info("the order was shipped", "a check was waiting", found, "error", err)
}

// The order is gone, and with it all that is to be looked at.
func ExampleClient_CancelEntity() {
	n, err := client.CancelEntity(ctx, tx, "orders", "42")
	slog.Info("the order was deleted", "checks cancelled", n, "error", err)
}

// The invoice is paid, so the checks that wait for the payment end as done, in the transaction of the payment.
func ExampleClient_End() {
	client, tx, rollback := begun() // those of the application, whose login has the rights of a runner
	defer rollback()
	for _, job := range []string{"invoice.reminder", "invoice.collection"} {
		check := jobs.Request{JobExec: job, EntityName: "invoices", EntityKey: "7", CheckAt: client.FromNow(48 * time.Hour)}
		if _, err := client.Enqueue(ctx, tx, check); err != nil {
			slog.Error("enqueue", "error", err)
		}
	}
	waiting, err := client.Related(ctx, tx, jobs.FutureJob{EntityName: "invoices", EntityKey: "7"})
	if err != nil {
		slog.Error("read what waits", "error", err)
	}
	ended, err := client.End(ctx, tx, jobs.OutcomeDone, waiting...)
	fmt.Println(ended, "checks ended,", err)
	// Output: 2 checks ended, <nil>
}

// begun returns a client and a transaction of a database of its own.
func begun() (client *jobs.Client, tx *sql.Tx, rollback func()) {
	tb, end := exampletest.TB()
	db := pgtest.New(tb)
	client, err := jobs.NewClient(ctx, db, jobs.Config{})
	if err == nil {
		tx, err = db.BeginTx(ctx, nil)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return client, tx, func() {
		_ = tx.Rollback()
		end()
	}
}

func ExampleClient_Reschedule() {
	key := jobs.Key{JobExec: "order.unshipped", EntityName: "orders", EntityKey: "42"}
	slot, found, err := client.Reschedule(ctx, tx, key, placedAt.Add(72*time.Hour))
	slog.Info("the customer asked for a later delivery", "slot", slot, "found", found, "error", err)
}

// It happened again: look an hour from now, but no later than a day after the first check.
func ExampleClient_PushBack() {
	key := jobs.Key{JobExec: "cart.abandoned", EntityName: "cart", EntityKey: "7"}
	slot, found, err := client.PushBack(ctx, tx, key, placedAt.Add(time.Hour), 24*time.Hour)
	slog.Info("the cart was changed", "slot", slot, "found", found, "error", err)
}

// The first change of a cart asks for the check, every further one pushes it back.
func ExamplePushBack() {
	check := jobs.Request{JobExec: "cart.abandoned", EntityName: "cart", EntityKey: "7", CheckAt: client.FromNow(time.Hour)}
	if _, err := client.Enqueue(ctx, tx, check, jobs.PushBack(24*time.Hour)); err != nil {
		slog.Error("ask for the check", "error", err)
	}
}

func ExampleRegistry_Register() {
	shipped := func(context.Context, string) (bool, error) { return false, nil }
	alert := func(context.Context, string) error { return nil }

	registry := jobs.NewRegistry()
	registry.Register("order.unshipped", jobs.Row(func(ctx context.Context, job jobs.FutureJob) (*time.Time, error) {
		ok, err := shipped(ctx, job.EntityKey)
		if err != nil || ok {
			return nil, err // an error is tried again; nil, nil is the end
		}
		if err := alert(ctx, job.EntityKey); err != nil {
			return nil, err
		}
		return job.After(72 * time.Hour), nil
	}), jobs.MaxChecks(2), jobs.Timeout(10*time.Second), jobs.Deadline(7*24*time.Hour))
}

// The parts of an upload are enqueued in the transaction that ends the upload's own row.
func ExampleResult() {
	registry := jobs.NewRegistry()
	registry.Register("import.split", jobs.Row(func(_ context.Context, upload jobs.FutureJob) (result jobs.Result, err error) {
		for _, part := range []string{"customers", "orders"} {
			load := jobs.Request{
				JobExec: "import.load", EntityName: "import", EntityKey: upload.EntityKey, ItemKey: part, CheckAt: upload.Slot,
			}
			result.Enqueue = append(result.Enqueue, load)
		}
		return result, nil
	}))
}

// What the check writes and its outcome are committed together, once.
func ExampleInTx() {
	registry := jobs.NewRegistry()
	registry.Register("order.unshipped", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		_, err := tx.ExecContext(ctx, `insert into alert (order_id, slot) values ($1, $2)`, job.EntityKey, job.Slot)
		return nil, err
	}))
}

// One statement answers for all rows of the call. Its writes and the outcomes of the rows are committed
// together.
func ExampleBatchInTx() {
	registry := jobs.NewRegistry()
	registry.Register("order.unshipped", jobs.BatchInTx(func(ctx context.Context, tx *sqlx.Tx, due []jobs.FutureJob) ([]jobs.Result, error) {
		keys := make([]string, len(due))
		for i, job := range due {
			keys[i] = job.EntityKey
		}
		_, err := tx.ExecContext(ctx, `insert into alert (order_id) select id from orders
			where id = any ($1::bigint[]) and shipped_at is null`, pq.Array(keys))
		return make([]jobs.Result, len(due)), err // no result has a Next: all rows end as done
	}))
}

// At most five calls for each tenant, over all runners.
func ExampleLimitBy() {
	send := func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }
	registry := jobs.NewRegistry()
	registry.Register("invoice.send", jobs.Row(send), jobs.AtMost(5),
		jobs.LimitBy(func(job jobs.FutureJob) string { return job.GroupKey }))
}

// Up to 50 rows share a transaction, with a savepoint around each call.
func ExampleEach() {
	registry := jobs.NewRegistry()
	registry.Register("order.unshipped", jobs.Each(func(ctx context.Context, tx *sql.Tx, job jobs.FutureJob) (*time.Time, error) {
		_, err := tx.ExecContext(ctx, `insert into alert (order_id, slot) values ($1, $2)`, job.EntityKey, job.Slot)
		return nil, err
	}), jobs.BatchSize(20))
}

// One call gets all that is due for a customer, of both jobs.
func ExampleGroup() {
	mails := jobs.Group("mails", func(ctx context.Context, tx *sqlx.Tx, due []jobs.FutureJob) ([]jobs.Result, error) {
		_, err := tx.ExecContext(ctx, `insert into mail (customer, topics) values ($1, $2)`, due[0].GroupKey, len(due))
		return make([]jobs.Result, len(due)), err
	})
	registry := jobs.NewRegistry()
	registry.Register("mail.order", mails)
	registry.Register("mail.invoice", mails)
}

func ExamplePayload() {
	type order struct {
		Customer string
		Total    int
	}
	request := jobs.Request{JobExec: "order.unshipped", EntityName: "orders", EntityKey: "42"}
	if err := request.SetPayload(order{Customer: "Ada", Total: 12}); err != nil {
		slog.Error("encode the order", "error", err)
	}
	check := func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		placed, err := jobs.Payload[order](job)
		fmt.Println(placed.Customer, placed.Total)
		return nil, err
	}

	// The runner calls the function with the row that the request became.
	if _, err := check(context.Background(), jobs.FutureJob{JobExec: request.JobExec, Payload: request.Payload}); err != nil {
		slog.Error("check the order", "error", err)
	}
	// Output: Ada 12
}

// The code that places orders and the code that checks them share the kind, so both use the same payload.
func ExampleKind() {
	type order struct {
		Customer string
		Reminded int
	}
	unshipped := jobs.Kind[order]{Name: "order.unshipped"}

	registry := jobs.NewRegistry()
	unshipped.Register(registry, jobs.Row(func(_ context.Context, job *jobs.Job[order]) (*time.Time, error) {
		slog.Info("not shipped yet", "order", job.EntityKey, "customer", job.Data.Customer)
		job.Data.Reminded++ // the next check finds it
		return job.After(24 * time.Hour), nil
	}))

	check := jobs.Request{EntityName: "orders", EntityKey: "42", CheckAt: client.FromNow(48 * time.Hour)}
	if _, err := unshipped.Enqueue(ctx, client, tx, check, order{Customer: "Ada"}); err != nil {
		slog.Error("ask for the check", "error", err)
	}
}

// A batch gets the payload of each row, too, and counts its reminders in it.
func ExampleBatch() {
	type order struct {
		Customer string
		Reminded int
	}
	unshipped := jobs.Kind[order]{Name: "order.unshipped"}

	unshipped.Register(jobs.NewRegistry(), jobs.Batch(func(_ context.Context, batch []*jobs.Job[order]) ([]jobs.Result, error) {
		results := make([]jobs.Result, len(batch))
		for i, job := range batch {
			job.Data.Reminded++
			results[i].Next = job.After(24 * time.Hour)
		}
		return results, nil
	}))
}

// A service that is down for an hour must not lose a row: with slots of 15 minutes, 8 errors in a row are tried again
// after 1, 2, 4, 4 ... slots. The ninth ends the row as failed, and an operator can put the row back.
func ExampleRetry() {
	send := func(context.Context, jobs.FutureJob) (*time.Time, error) {
		return nil, errors.New("the mail server does not answer")
	}
	registry := jobs.NewRegistry()
	registry.Register("mail.reminder", jobs.Row(send), jobs.Retry(8), jobs.MaxBackOff(4))
}

// An error that no retry mends ends the row as failed at once.
func ExampleGiveUp() {
	type mail struct{ Address string }
	remind := func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		to, err := jobs.Payload[mail](job)
		if err != nil {
			return nil, jobs.GiveUp(err) // the payload stays as it is
		}
		fmt.Println("a mail to", to.Address)
		return nil, nil
	}
	registry := jobs.NewRegistry()
	registry.Register("mail.reminder", jobs.Row(remind))

	// The runner calls the function with a row whose payload is wrong.
	_, err := remind(context.Background(), jobs.FutureJob{Payload: []byte(`{"Address": 7}`)})
	fmt.Println(errors.Is(err, jobs.ErrGiveUp))
	// Output: true
}

// After an outage, catch-up checks late orders at once. It moves reports to the next slot, and skips reminders of a
// day that is over.
func ExampleOnMisfire() {
	check := func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }
	registry := jobs.NewRegistry()
	registry.Register("order.unshipped", jobs.Row(check)) // jobs.MisfireRun is the default
	registry.Register("report.daily", jobs.Row(check), jobs.OnMisfire(jobs.MisfireDefer))
	registry.Register("lunch.reminder", jobs.Row(check), jobs.OnMisfire(jobs.MisfireSkip))
}

// A bad request names its field, before anything is written. So the transaction goes on.
func ExampleFieldError() {
	check := jobs.Request{JobExec: "order.unshipped", EntityName: "orders", CheckAt: client.FromNow(48 * time.Hour)}
	_, err := client.Enqueue(ctx, tx, check)
	if bad, ok := errors.AsType[*jobs.FieldError](err); ok {
		slog.Info("the request is wrong", "field", bad.Field, "why", bad.Message)
	}
}

// A line in the log for each call that failed, of any job.
func ExampleRegistry_Use() {
	registry := jobs.NewRegistry()
	registry.Register("order.unshipped", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		return nil, errors.New("the warehouse does not answer")
	}))
	registry.Use(func(ctx context.Context, call jobs.Call, next func(context.Context) ([]jobs.Result, error)) ([]jobs.Result, error) {
		results, err := next(ctx)
		if err != nil {
			slog.Error("the check failed", "job", call.JobExec, "entity", call.Rows[0].EntityKey, "error", err)
		}
		return results, err
	})
}

func ExampleRegistry_Periodic() {
	registry := jobs.NewRegistry()
	registry.Periodic("report.daily", "0 9 * * mon-fri", jobs.Row(func(ctx context.Context, job jobs.FutureJob) (*time.Time, error) {
		if !salesAreComplete(ctx, job.Instant) {
			return job.After(15 * time.Minute), nil // look again, for the same instant
		}
		return nil, report(ctx, job.Instant)
	}), jobs.Zone("Europe/Berlin"), jobs.MaxChecks(8), jobs.OnMisfire(jobs.MisfireEach))
}

func salesAreComplete(context.Context, time.Time) bool { return true }

func report(context.Context, time.Time) error { return nil }

// Each enqueue takes the tenant of its context along, and needs one.
func ExampleEnqueueMiddleware() {
	type tenant struct{}
	of := func(ctx context.Context, call jobs.EnqueueCall, next func(context.Context, []jobs.Request) error) error {
		name, ok := ctx.Value(tenant{}).(string)
		if !ok {
			return errors.New("the request has no tenant")
		}
		for i := range call.Requests {
			call.Requests[i].GroupKey = name
		}
		return next(ctx, call.Requests)
	}
	client, err := jobs.NewClient(ctx, db, jobs.Config{Around: []jobs.EnqueueMiddleware{of}})
	if err != nil {
		slog.Error("connect", "error", err)
		return
	}
	check := jobs.Request{
		JobExec: "order.unshipped", EntityName: "orders", EntityKey: "44", CheckAt: client.FromNow(48 * time.Hour),
	}
	if _, err := client.Enqueue(context.WithValue(ctx, tenant{}, "acme"), jobs.OwnTx(db), check); err != nil {
		slog.Error("ask for the check", "error", err)
	}
}

func TestTheExamplesRun(t *testing.T) {
	w := setup(t)
	w.exec(`create table orders (id bigint primary key, shipped_at timestamptz)`)
	begun, err := w.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = begun.Rollback() }()
	db, tx, client, placedAt = w.db, begun, w.client, w.client.Now()
	exampletest.Run(t, map[string]func(){
		"the package":             Example,
		"NewClient":               ExampleNewClient,
		"Client_Enqueue":          ExampleClient_Enqueue,
		"Client_Enqueue_replace":  ExampleClient_Enqueue_replace,
		"Client_Enqueue_notAgain": ExampleClient_Enqueue_notAgain,
		"Client_EnqueueAll":       ExampleClient_EnqueueAll,
		"Client_EnqueueMany":      ExampleClient_EnqueueMany,
		"Client_Cancel":           ExampleClient_Cancel,
		"Client_CancelEntity":     ExampleClient_CancelEntity,
		"Client_Reschedule":       ExampleClient_Reschedule,
		"Client_PushBack":         ExampleClient_PushBack,
		"PushBack":                ExamplePushBack,
		"Registry_Register":       ExampleRegistry_Register,
		"Result":                  ExampleResult,
		"InTx":                    ExampleInTx,
		"BatchInTx":               ExampleBatchInTx,
		"LimitBy":                 ExampleLimitBy,
		"Each":                    ExampleEach,
		"Group":                   ExampleGroup,
		"Kind":                    ExampleKind,
		"Batch":                   ExampleBatch,
		"Retry":                   ExampleRetry,
		"OnMisfire":               ExampleOnMisfire,
		"FieldError":              ExampleFieldError,
		"Registry_Use":            ExampleRegistry_Use,
		"Registry_Periodic":       ExampleRegistry_Periodic,
		"EnqueueMiddleware":       ExampleEnqueueMiddleware,
	})
}
