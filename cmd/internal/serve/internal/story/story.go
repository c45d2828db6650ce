// Package story makes what the tests of prescient serve look at: a shop whose checks have been run
// for days, in virtual time on a real database, with everything in it that a page can show.
package story

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/cmd/internal/serve/pages"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/testkit"
)

// The tokens that the pages know: of "ann", who may read, and "otto", who may act.
const (
	ReadToken     = "readers-may-look-0001"
	OperatorToken = "operators-may-act-0001"
)

// Access knows these tokens, and believes a proxy in these networks.
func Access(t testing.TB, log *slog.Logger, proxies ...netip.Prefix) *web.Access {
	t.Helper()
	keys, err := web.NewNamedKeys([]string{"otto:" + OperatorToken}, []string{"ann:" + ReadToken})
	if err != nil {
		t.Fatal(err)
	}
	return web.NewAccess(keys, web.ProxiedAddress(proxies), log).LockingOut()
}

// World is a shop with its pages.
type World struct {
	*testkit.Kit
	Board     *board.Board
	Pages     *pages.Pages
	Schedules *schedule.Store
	Outbox    *outbox.Outbox

	t testing.TB
	// blocked holds up the checks of the job "stock.slow", so that a slot is being run.
	blocked chan struct{}
}

// Known are the jobs of the shop. The checks of "invoice.unpaid" fail where the payload says so.
func (w *World) known() *jobs.Registry {
	r := jobs.NewRegistry()
	done := func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }
	r.Register("order.unshipped", jobs.Row(done), jobs.SLA(5*time.Minute), jobs.Deadline(24*time.Hour))
	r.Register("review.ask", jobs.Row(done))
	r.Register("cart.abandoned", jobs.Row(func(_ context.Context, j jobs.FutureJob) (*time.Time, error) {
		if j.CheckCount == 0 {
			return new(j.Slot.Add(3 * time.Hour)), nil
		}
		return nil, nil
	}))
	r.Register("invoice.unpaid", jobs.Row(func(_ context.Context, j jobs.FutureJob) (*time.Time, error) {
		if len(j.Payload) > 0 {
			return nil, errors.New("the bank does not answer: connection refused")
		}
		return nil, nil
	}), jobs.Retry(0))
	pack := func(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		return make([]jobs.Result, len(batch)), nil
	}
	r.Register("parcel.pack", jobs.Group("parcels", pack))
	r.Register("cart.kept", jobs.Row(func(_ context.Context, j jobs.FutureJob) (*time.Time, error) {
		return new(j.Slot.Add(width)), nil
	}), jobs.MaxChecks(2))
	r.Register("stock.slow", jobs.Row(func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
		select {
		case <-w.blocked:
		case <-ctx.Done():
		}
		return nil, ctx.Err()
	}))
	return r
}

// New makes an empty shop; change changes the settings of its pages.
func New(t testing.TB, change func(*pages.Config)) *World { return NewOfWidth(t, width, change) }

// NewOfWidth is New with slots of another width, which the Runner and the Client of the world do
// not know.
func NewOfWidth(t testing.TB, of time.Duration, change func(*pages.Config)) *World {
	t.Helper()
	w := &World{t: t, blocked: make(chan struct{})}
	known, publishing := w.known(), &schedule.PublishConfig{}
	schedule.Register(known, publishing)
	//nolint:forbidigo // what is recorded has the database's time
	start := time.Now().UTC().Truncate(width).Add(-51 * time.Hour)
	w.Kit = testkit.New(t, testkit.Config{Registry: known, Start: start})
	schema, err := pgsql.ParseSchema("")
	w.must(err)
	if g, err := grid.New(of); of != width {
		w.must(err)
		_, err = w.Ledger.SetWidth(t.Context(), g)
		w.must(err)
	}
	w.Outbox = outbox.New(w.DB, schema)
	publishing.Publisher = w.Outbox
	w.must(rule.Register(known, rule.CheckConfig{
		DB: func(context.Context) (pgsql.Pool, error) { return w.DB, nil }, Publisher: w.Outbox, Source: "/shop",
		Schema: schema,
	}))
	w.Schedules, err = schedule.NewStore(t.Context(), w.DB, schedule.Config{Now: w.Clock.Now})
	w.must(err)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	w.Board, err = board.New(t.Context(), board.Config{
		DB: w.DB, Runner: slots.Config{Registry: known, Now: w.Clock.Now, Logger: log}, Publishing: publishing,
		Self: "shop", Logger: log, Now: w.Clock.Now,
	})
	w.must(err)
	t.Cleanup(w.Board.Close)
	cfg := pages.Config{Board: w.Board, Access: Access(t, log), Logger: log}
	if change != nil {
		change(&cfg)
	}
	w.Pages = pages.New(cfg)
	return w
}

func (w *World) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}
