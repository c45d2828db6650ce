package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/event"
)

type publisher struct {
	target  target
	clients *pool
}

// Publish sends the first event of every subject, then the second of each whose first is safe, and
// so on.
func (p *publisher) Publish(ctx context.Context, events []event.Event) error {
	if len(events) == 0 {
		return nil
	}
	client, err := p.clients.take(ctx)
	if err != nil {
		return fmt.Errorf("publish %s: %w", spoken.Count(len(events), "event", "events"), err)
	}
	stop := context.AfterFunc(ctx, client.Close)
	defer func() { p.clients.give(client, stop()) }()

	errs := make([]error, len(events))
	for chains := event.BySubject(events); len(chains) > 0; {
		heads := make([]int, len(chains))
		for n, chain := range chains {
			heads[n] = chain[0]
		}
		p.send(ctx, client, events, heads, errs)
		chains = advance(chains, errs)
	}
	return event.Partial(errs)
}

// advance takes the heads off the chains, and marks the events behind a failed head.
func advance(chains [][]int, errs []error) [][]int {
	left := chains[:0]
	for _, chain := range chains {
		head, behind := chain[0], chain[1:]
		if errs[head] == nil && len(behind) > 0 {
			left = append(left, behind)
			continue
		}
		event.Blocked(behind, errs)
	}
	return left
}

// send sends events of different subjects, given by their indices, and notes their errors. A broker
// that finds a batch too large refuses all of it, with the events that fit: so those go again in
// halves, until one that does not fit is alone.
func (p *publisher) send(ctx context.Context, client *kgo.Client, events []event.Event, indices []int, errs []error) {
	index := map[*kgo.Record]int{}
	var records []*kgo.Record
	for _, i := range indices {
		record, err := recordOf(events[i])
		if err = cmp.Or(err, context.Cause(ctx)); err != nil {
			errs[i] = p.explain(events[i], err)
			continue
		}
		index[record] = i
		records = append(records, record)
	}
	var refused []int
	for _, result := range client.ProduceSync(ctx, records...) {
		switch i := index[result.Record]; {
		case errors.Is(result.Err, kerr.MessageTooLarge) && len(records) > 1:
			refused = append(refused, i)
		case result.Err != nil:
			errs[i] = p.explain(events[i], cmp.Or(context.Cause(ctx), result.Err))
		}
	}
	for half := range slices.Chunk(refused, max(1, (len(refused)+1)/2)) {
		p.send(ctx, client, events, half, errs)
	}
}

// recordOf leaves the record's timestamp to the client, which counts the time for its delivery from
// it.
func recordOf(e event.Event) (*kgo.Record, error) {
	value, err := e.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return &kgo.Record{
		Key:     []byte(e.Subject),
		Value:   value,
		Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte(event.ContentType)}},
	}, nil
}

func (p *publisher) explain(e event.Event, err error) error {
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		err = fmt.Errorf("topic %q does not exist; create it: kafka-topics.sh --bootstrap-server %s --create --topic %s: %w",
			p.target.topic, strings.Join(p.target.brokers, ","), p.target.topic, err)
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.InvalidRecord):
		err = fmt.Errorf("%w: %w", event.ErrRefused, err)
	case errors.Is(err, kgo.ErrRecordTimeout):
		err = fmt.Errorf("no broker took it within %s (the log has the reasons): %w", patience, err)
	}
	return fmt.Errorf("publish event %q: %w", e.ID, err)
}

// Close has nothing to wait for: Publish returns when it is known what became of its events.
func (p *publisher) Close() error {
	p.clients.close()
	return nil
}
