package httpjob

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/egress"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/storeid"
	"github.com/prescient-go/prescient/jobs"
)

// Config binds a job to a service. Name and URL must be set; every other zero field means its
// default.
type Config struct {
	// Name is the job_exec.
	Name string
	// URL is where the rows are posted to, http or https.
	URL string
	// Secret signs each request: "whsec_" and 24 to 64 bytes in base64. Several secrets, separated by spaces, make
	// several signatures. Empty: unsigned.
	Secret string
	// Allow lists private or otherwise special addresses that the service may have.
	Allow []netip.Prefix
	// Timeout limits one request, with all of its tries. Defaults to 30 s.
	Timeout time.Duration
	// BatchSize limits the rows of one request. Defaults to 500.
	BatchSize int
	// Concurrency is how many requests a runner has open at once. Defaults to 4.
	Concurrency int
}

// The defaults of Config.
const (
	DefaultTimeout     = 30 * time.Second
	DefaultBatchSize   = 500
	DefaultConcurrency = 4
)

// tries is how often a request is sent within the timeout. After that its rows wait for a later
// slot.
const tries = 3

// The size limit of an answer: some bytes, and more for each row.
const (
	maxAnswer    = 64 << 10
	maxAnswerRow = 4 << 10
)

// Register adds the job to a registry. opts may set anything but jobs.Timeout, jobs.BatchSize and
// jobs.Concurrency. It makes no connection. Returns an error that names a bad setting, and panics
// as jobs.Registry.Register does.
func Register(registry *jobs.Registry, cfg Config, opts ...jobs.Option) error {
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	cfg.BatchSize = cmp.Or(cfg.BatchSize, DefaultBatchSize)
	cfg.Concurrency = cmp.Or(cfg.Concurrency, DefaultConcurrency)
	s, err := newService(cfg)
	if err != nil {
		return fmt.Errorf("bind job %q to a service: %w", cfg.Name, err)
	}
	opts = append(slices.Clone(opts), jobs.Timeout(cfg.Timeout), jobs.BatchSize(cfg.BatchSize),
		jobs.Concurrency(cfg.Concurrency))
	registry.Register(cfg.Name, jobs.Batch(s.check), opts...)
	return nil
}

// service is a bound service and its job.
type service struct {
	job    string
	to     *url.URL
	client *egress.Client
}

func newService(cfg Config) (*service, error) {
	if cfg.Timeout < 0 || cfg.BatchSize < 0 || cfg.Concurrency < 0 {
		return nil, errors.New("the timeout, the batch size and the concurrency must be positive")
	}
	if problem := spoken.Unitless(cfg.Timeout); problem != "" {
		return nil, errors.New("the timeout: " + problem)
	}
	to, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, errors.New("the URL cannot be parsed: " +
			"percent-encode special characters (it is not shown, as it may hold a password)")
	}
	if err := egress.CheckURL(to); err != nil {
		return nil, err
	}
	client, err := egress.New(egress.Config{
		Secret: cfg.Secret, Allow: cfg.Allow, Timeout: cfg.Timeout, MaxAttempts: tries, Idle: cfg.Concurrency,
		MaxResponseBytes: maxAnswer + int64(cfg.BatchSize)*maxAnswerRow,
	})
	if err != nil {
		return nil, err
	}
	return &service{job: cfg.Name, to: to, client: client}, nil
}

// check is the job's function: it makes one request for the rows.
func (s *service) check(ctx context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
	answered, err := s.ask(ctx, batch)
	if refusesContent(err) && len(batch) > 1 {
		return nil, fmt.Errorf("%w: %w", jobs.ErrDivide, err)
	}
	if err != nil {
		return slices.Repeat([]jobs.Result{{Err: err}}, len(batch)), nil
	}
	return answered, nil
}

// refusesContent reports whether the service refuses the content of a request: a row may be at fault.
func refusesContent(err error) bool {
	status, ok := errors.AsType[*egress.StatusError](err)
	return ok && slices.Contains([]int{
		http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity,
	}, status.Status)
}

// ask makes one request. An error belongs to all its rows.
func (s *service) ask(ctx context.Context, rows []jobs.FutureJob) ([]jobs.Result, error) {
	store := storeid.Of(ctx)
	body, err := json.Marshal(newRequest(store, s.job, rows))
	if err != nil {
		return nil, fmt.Errorf("encode the rows: %w", err)
	}
	answer, err := s.client.Post(ctx, s.to, egress.Message{
		ID: messageID(store, s.job, rows), ContentType: "application/json", Body: body,
	})
	if err != nil {
		return nil, err
	}
	results, err := decode(answer, rows)
	if err != nil {
		return nil, fmt.Errorf("answer of %s: %w", egress.Origin(s.to), err)
	}
	return results, nil
}

// messageID returns an id that is equal for the same rows of the same store in the same state. A restored store gives
// ids again, so a row is known by its instant, too.
func messageID(store, job string, rows []jobs.FutureJob) string {
	hash := sha256.New()
	_, _ = fmt.Fprintf(hash, "%q %q %d", store, job, rows[0].Slot.UnixMicro()) // a hash never fails
	for _, row := range rows {
		_, _ = fmt.Fprintf(hash, " %d/%d/%d/%d", row.ID, row.EnqueuedAt.UnixMicro(), row.CheckCount, row.ErrorCount)
	}
	return "msg_" + hex.EncodeToString(hash.Sum(nil)[:16])
}
