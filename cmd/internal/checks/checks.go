// Package checks binds the jobs of a command: those of the binary, those of the settings, the rules of
// the database, and the job of recurring schedules. It knows no command.
package checks

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	_ "github.com/prescient-go/prescient/jobs/event/file" // linked into every binary, unlike brokers
	"github.com/prescient-go/prescient/jobs/event/forward"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	_ "github.com/prescient-go/prescient/jobs/event/webhook"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/jobs/sqljob"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/metrics"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Bound is the checks of a command, with what they need.
type Bound struct {
	DB       *sqlx.DB
	Setting  pgsql.Setting
	Registry *jobs.Registry
	// Publisher writes the events of queries, rules and schedules into the outbox.
	Publisher event.TxPublisher
	// Broken says that a query of sql_jobs cannot run, as far as With has found out.
	Broken bool
	// Metrics counts what is run and published. Nil: nothing is counted.
	Metrics *metrics.Metrics

	// Told is slots.Config.Told. Nil: each failure is a warning.
	Told func(job string, gaveUp bool) bool

	queries   []sqljob.Config
	forwarder atomic.Pointer[forward.Forwarder] // nil: nothing is forwarded
}

// With is Bind for commands that run slots. It logs each query that cannot run: only the rows of its
// own job then fail.
func With(ctx context.Context, f *factory.Factory, m *metrics.Metrics, fn func(b *Bound) error) error {
	return Bind(ctx, f, m, func(b *Bound) error {
		b.logBroken(ctx, f)
		return fn(b)
	})
}

// Bind is database.With for commands that run checks. The registry has the jobs of the binary, the
// jobs that the settings bind to a service or a query, and the job of schedules. It knows the rules of
// the database. Events go to the outbox. m may be nil.
func Bind(ctx context.Context, f *factory.Factory, m *metrics.Metrics, fn func(b *Bound) error) error {
	return database.With(ctx, f, func(db *sqlx.DB, setting pgsql.Setting) (err error) {
		view, err := database.NewView(f, setting)
		if err != nil {
			return err
		}
		f.Log().InfoContext(ctx, "connected", "database", view.String())
		registry := f.Registry.Clone()
		b := &Bound{DB: db, Setting: setting, Registry: registry, Metrics: m}
		b.Publisher = b.publisher(f)
		release, err := b.bind(f)
		if err != nil {
			return err
		}
		defer release()
		b.registerSchedules(f)
		closeRules, err := b.registerRules(f)
		if err != nil {
			return err
		}
		defer closeRules()
		return fn(b)
	})
}

// Watch makes the metrics read from the database.
func (b *Bound) Watch(f *factory.Factory) {
	b.Metrics.Watch(metrics.Source{DB: b.DB, Schema: f.Config().Database.Schema, Registry: b.Registry, Logger: f.Log()})
}

// none converts the 0 of a setting, which means none, for a field whose default is 0 and whose none
// is -1.
func none(d time.Duration) time.Duration { return cmp.Or(d, -1) }

// Runner returns the configuration of a runner. progress may be nil.
func (b *Bound) Runner(f *factory.Factory, progress func(slots.Progress)) slots.Config {
	cfg, pools := f.Config(), f.Pools()
	var observer slots.Observer
	if b.Metrics != nil {
		observer = b.Metrics
	}
	return slots.Config{
		DB: b.DB, Schema: cfg.Database.Schema, Registry: b.Registry,
		Shared: pools.Bounds(b.DB), Workers: pools.Part(cfg.Run.Workers), Connections: pools.Part(cfg.Run.Connections),
		Page:  cfg.Run.Page,
		Lease: cfg.Run.Lease, Grace: none(cfg.Run.Grace), Early: none(cfg.Run.StartTolerance),
		Logger: f.Log(), Progress: progress, Observer: observer,
		Told: b.Told,
	}
}

// publisher returns the outbox. A forwarder is woken when events are written.
func (b *Bound) publisher(f *factory.Factory) event.TxPublisher {
	var p event.TxPublisher = outbox.New(b.DB, f.Schema())
	if b.Metrics != nil {
		p = b.Metrics.Publisher(p)
	}
	return event.WrapTx(p, func(ctx context.Context, events []event.Event, publish func(context.Context) error) error {
		ctx, end := b.Registry.StartSpan(reserved.Caller{}, ctx, "publish", slog.Int("events", len(events)))
		err := publish(ctx)
		end(err)
		if f := b.forwarder.Load(); f != nil {
			f.Wake()
		}
		return err
	})
}

// registerSchedules adds the job of schedules, unless the binary has its own, with its own
// publisher.
func (b *Bound) registerSchedules(f *factory.Factory) {
	for d := range b.Registry.All() {
		if d.Name == schedule.JobExec {
			return
		}
	}
	schedule.Register(b.Registry, &schedule.PublishConfig{
		Publisher: b.Publisher, Source: f.Config().Events.Source, Schema: f.Schema(),
	})
}

// rulesConnections bounds the connections on which the checks of rules read tables.
const rulesConnections = 4

// registerRules makes the registry know the rules of the database. The caller calls release when it no
// longer uses the registry.
func (b *Bound) registerRules(f *factory.Factory) (release func(), err error) {
	p := &pool{
		address: func(ctx context.Context) (string, error) { return database.Address(ctx, f) }, size: rulesConnections,
	}
	return p.close, rule.Register(b.Registry, rule.CheckConfig{
		DB: p.open, Publisher: b.Publisher, Source: f.Config().Events.Source, Schema: f.Schema(),
		Logger: f.Log(),
	})
}
