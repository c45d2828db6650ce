// Package webhook publishes events by HTTP: one signed POST for each (https: and http:). Import it
// to link it.
//
// The body is the CloudEvent as JSON, of the type application/cloudevents+json. The headers
// webhook-id, webhook-timestamp and webhook-signature are those of Standard Webhooks 1.0. webhook-id is
// the event's Source, # and ID, percent-encoded where it has to be: the receiver tells by it what it has
// already. Two stores may publish events of one ID, which differ by their Source. The whole URL, with
// its query, is the receiver's.
//
// A request goes only to public addresses and those of Config.Allow of package event, without a proxy. It is sent again
// after a network error and after the answers 408, 425, 429 and 5xx, with pauses that double, or that Retry-After asks
// for. Redirects 307 and 308 are followed up to three times, but not from https to http.
//
// Up to 16 events are under way at once, those of one subject one after the other. When 16 have
// failed in a row, each after all its tries, the receiver is taken to be down and the rest of the
// batch is not sent. If it has accepted nothing until then, the events may be the cause. So events of
// the rest are tried in random order, until 16 have failed again. An event that it refuses for what
// is in it (400, 413, 415 and 422) does not count for that.
package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prescient-go/prescient/internal/egress"
	"github.com/prescient-go/prescient/jobs/event"
)

func init() {
	event.Register("https", open)
	event.Register("http", open)
}

type publisher struct {
	to      *url.URL
	client  *egress.Client
	sending chan struct{} // one for each event that is under way, of all calls
}

func open(_ context.Context, to *url.URL, cfg event.Config) (event.Publisher, error) {
	if err := egress.CheckURL(to); err != nil {
		return nil, err
	}
	client, err := egress.New(egress.Config{Secret: cfg.Secret, Allow: cfg.Allow})
	if err != nil {
		return nil, err
	}
	return &publisher{to: to, client: client, sending: make(chan struct{}, atOnce)}, nil
}

// Close gives back the connections.
func (p *publisher) Close() error {
	p.client.Close()
	return nil
}

// Publish sends a batch. An event was published when its answer was 2xx.
func (p *publisher) Publish(ctx context.Context, events []event.Event) error {
	b := batch{publisher: p, most: share(ctx)}
	errs := make([]error, len(events))
	chains := event.BySubject(events)
	b.send(ctx, events, chains, errs)
	if b.failed.Load() >= maxFailed && !slices.Contains(errs, nil) {
		chains = slices.DeleteFunc(chains, func(chain []int) bool { return !errors.Is(errs[chain[0]], errDown) })
		rand.Shuffle(len(chains), func(i, j int) { chains[i], chains[j] = chains[j], chains[i] })
		b.failed.Store(0)
		b.send(ctx, events, chains, errs)
	}
	return event.Partial(errs)
}

// atOnce bounds the events that are under way.
const atOnce = 16

// send posts the events of each chain in order, and those of different chains concurrently.
func (b *batch) send(ctx context.Context, events []event.Event, chains [][]int, errs []error) {
	waiting := make(chan []int, len(chains))
	for _, chain := range chains {
		waiting <- chain
	}
	close(waiting)
	var wg sync.WaitGroup
	for range min(atOnce, len(chains)) {
		wg.Go(func() {
			for chain := range waiting {
				event.InOrder(chain, errs, func(i int) error { return b.post(ctx, events[i]) })
			}
		})
	}
	wg.Wait()
}

// batch is a call of Publish.
type batch struct {
	*publisher
	most   time.Duration // for an event, with all its tries; 0: no limit
	failed atomic.Int64  // events in a row
}

// share returns how long one event of a batch may take: less than the batch, so that one that gets no answer is told
// from those for which no time was left. 0: there is no limit.
func share(ctx context.Context) time.Duration {
	end, limited := ctx.Deadline()
	if !limited {
		return 0
	}
	return max(time.Millisecond, time.Until(end)*3/4)
}

// maxFailed is how many events in a row may fail before the rest of a batch is given up: as many as
// are under way.
const maxFailed = atOnce

var errDown = fmt.Errorf("%w: the %d events before it failed", event.ErrNotSent, maxFailed)

func (b *batch) post(ctx context.Context, e event.Event) error {
	if b.failed.Load() >= maxFailed {
		return errDown
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", event.ErrNotSent, context.Cause(ctx))
	}
	select {
	case b.sending <- struct{}{}:
		defer func() { <-b.sending }()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", event.ErrNotSent, context.Cause(ctx))
	}
	if b.most > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, b.most, fmt.Errorf("no answer within %s", b.most.Round(time.Second)))
		defer cancel()
		ctx = limited
	}
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode event %q: %w", e.ID, err)
	}
	if _, err := b.client.Post(ctx, b.to, egress.Message{
		ID: e.Source + "#" + e.ID, ContentType: event.ContentType, Body: body,
	}); err != nil {
		if refused(err) {
			return fmt.Errorf("publish event %q: %w: %w", e.ID, event.ErrRefused, err)
		}
		b.failed.Add(1)
		if errors.Is(err, egress.ErrAddress) {
			return fmt.Errorf("publish event %q: %w: %w", e.ID, event.ErrNotSent, err)
		}
		return fmt.Errorf("publish event %q: %w", e.ID, err)
	}
	b.failed.Store(0)
	return nil
}

// refused tells whether the receiver will never accept this event. Other events are not affected.
func refused(err error) bool {
	status, ok := errors.AsType[*egress.StatusError](err)
	return ok && slices.Contains([]int{
		http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity,
	}, status.Status)
}
