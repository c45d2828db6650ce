package sqljob

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Config binds a job to a query. Name, Query, DB and Publisher must be set; every other
// zero field means its default.
type Config struct {
	// Name is the job_exec.
	Name string
	// Query gets the keys as $1, an array of texts.
	Query string
	// DB returns the pool that the query runs on, which must stay open. While DB returns an error,
	// every row gets it. Do not use the runner's pool, even for the same database: a slow query
	// would hold connections that the runner needs to keep its leases.
	DB func(ctx context.Context) (pgsql.Pool, error)
	// Role is the role that the query runs as. The user of DB must be allowed to take it. Defaults
	// to that user.
	Role string
	// Timeout limits the query, in steps of a millisecond, up to the server's maximum of 24 days.
	// Defaults to 30 s.
	Timeout time.Duration
	// BatchSize limits the keys of one query. Defaults to as many rows as the runner reads at once.
	BatchSize int
	// Concurrency limits how many batches a runner checks at once. Defaults to 2.
	Concurrency int
	// Publisher gets the events, in the transaction that records the outcome of the rows.
	Publisher event.TxPublisher
	// Source and Type are those of the events. Source defaults to that of the store, see event.Event. Type defaults to
	// Name.
	Source string
	Type   string
}

// The defaults of Config.
const (
	DefaultTimeout     = 30 * time.Second
	DefaultConcurrency = 2
)

// mostTimeout is the largest statement_timeout: 31 bits of milliseconds.
const mostTimeout = math.MaxInt32 * time.Millisecond

// publishTime is the time of a page for publishing its events, beside its query.
const publishTime = 30 * time.Second

// Register adds the job to a registry. opts may set anything but jobs.Timeout, jobs.BatchSize and
// jobs.Concurrency. It does not touch the database: see Check. Returns an error that names a
// missing field, and panics as jobs.Registry.Register does.
func Register(registry *jobs.Registry, cfg Config, opts ...jobs.Option) error {
	if cfg.Query == "" || cfg.DB == nil || cfg.Publisher == nil ||
		cfg.Timeout < 0 || cfg.BatchSize < 0 {
		return fmt.Errorf("bind job %q to a query: "+
			"Query, DB and Publisher must be set, and Timeout and BatchSize not negative", cfg.Name)
	}
	if problem := spoken.Unitless(cfg.Timeout); problem != "" {
		return fmt.Errorf("bind job %q to a query: Timeout: %s", cfg.Name, problem)
	}
	b := &binding{Config: withDefaults(cfg)}
	opts = append(slices.Clone(opts), jobs.Timeout(b.Timeout+publishTime), jobs.Concurrency(b.Concurrency))
	if b.BatchSize > 0 {
		opts = append(opts, jobs.BatchSize(b.BatchSize))
	}
	registry.Register(cfg.Name,
		jobs.BatchInTx(func(ctx context.Context, tx *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
			return b.check(ctx, tx, batch)
		}), opts...)
	return nil
}

func withDefaults(cfg Config) Config {
	cfg.Timeout = min(max(time.Millisecond, cmp.Or(cfg.Timeout, DefaultTimeout)), mostTimeout)
	cfg.Concurrency = cmp.Or(cfg.Concurrency, DefaultConcurrency)
	cfg.Type = cmp.Or(cfg.Type, cfg.Name)
	return cfg
}

// binding is a job and its query.
type binding struct {
	Config
	wrapped atomic.Pointer[string] // the query as it is sent; nil: its columns are unknown
}

// check is the function of the job: it runs the query for a page, and publishes the events. If the
// answer is too large, it runs the query for each half of the page.
func (b *binding) check(ctx context.Context, tx *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
	answers, err := b.ask(ctx, keys(batch))
	if errors.Is(err, errTooLarge) && len(batch) > 1 {
		half := len(batch) / 2
		first, err := b.check(ctx, tx, batch[:half])
		if err != nil {
			return nil, err
		}
		second, err := b.check(ctx, tx, batch[half:])
		return append(first, second...), err
	}
	if errors.Is(err, errTooLarge) {
		return []jobs.Result{{Err: b.largeEvent(batch[0].EntityKey)}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("query of job %q: %w", b.Name, err)
	}
	results := make([]jobs.Result, len(batch))
	var events []event.Event
	for i, job := range batch {
		answer, returned := answers[job.EntityKey]
		if !returned {
			continue
		}
		results[i] = jobs.Result{Next: answer.next, Err: answer.err}
		if answer.err != nil || answer.event == nil {
			continue
		}
		e := b.event(job, answer)
		if err := e.ValidateNew(); err != nil { // here, because the outbox refuses all events for one bad one
			results[i] = jobs.Result{Err: fmt.Errorf("publish the event, whose subject is the entity_key: %w", err)}
			continue
		}
		events = append(events, e)
	}
	if len(events) == 0 {
		return results, nil
	}
	if err := b.Publisher.PublishTx(ctx, tx, events); err != nil {
		return nil, fmt.Errorf("publish the events: %w", err)
	}
	return results, nil
}

// keys returns the entity keys of a batch, each once.
func keys(batch []jobs.FutureJob) []string {
	list := make([]string, len(batch))
	for i, job := range batch {
		list[i] = job.EntityKey
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// event returns an event that is dated at the start of the check, by the clock that slots are
// compared with.
func (b *binding) event(job jobs.FutureJob, a answer) event.Event {
	return event.Event{
		ID: eventID(job), Source: b.Source, Type: b.Type, Subject: job.EntityKey,
		Time: job.Slot, PublishedAt: job.Slot.Add(job.Lateness), Data: a.event,
	}
}

// eventID returns the same id whenever the same check of a row is repeated: in the same slot after
// a crash, in a later slot after an error. A key can be enqueued again for the slot that an earlier
// row of it had at first, so a row is known by the instant when it was enqueued, too. Anonymous rows
// have no key, so their id tells them apart.
func eventID(job jobs.FutureJob) string {
	hash := sha256.New()
	_, _ = fmt.Fprintf(hash, "%q %q %q %q %d %d", // a hash never fails
		job.JobExec, job.EntityName, job.EntityKey, job.ItemKey, job.EnqueuedAt.UnixMicro(), job.CheckCount)
	if job.Anonymous {
		_, _ = fmt.Fprintf(hash, " %d", job.ID)
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}
