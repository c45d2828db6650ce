package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/prescient-go/prescient/jobs/event"
)

const (
	// ackWait is how long an event waits for its acknowledgement, connecting included.
	ackWait = 10 * time.Second
	// pingInterval finds a dead connection, which is closed at the third ping, before ackWait ends.
	pingInterval = 3 * time.Second
	// maxInFlight is how many events may wait for their acknowledgement; a stream queues 10,000 at
	// most, of all clients.
	maxInFlight = 256
	// maxSubject keeps a line of the protocol below the 4,096 bytes at which a server hangs up.
	maxSubject = 2048
)

type publisher struct {
	subject  subject
	stream   string // that must take the events, or empty
	link     *link
	inFlight chan struct{}
}

// Publish sends the events of each subject one after the other, those of different subjects at
// once.
func (p *publisher) Publish(ctx context.Context, events []event.Event) error {
	errs := make([]error, len(events))
	send := func(i int) error {
		if err := p.send(ctx, events[i]); err != nil {
			return fmt.Errorf("publish event %q: %w", events[i].ID, err)
		}
		return nil
	}
	var wg sync.WaitGroup
	for _, chain := range event.BySubject(events) {
		wg.Go(func() { event.InOrder(chain, errs, send) })
	}
	wg.Wait()
	return event.Partial(errs)
}

// send returns when the stream has the event.
func (p *publisher) send(ctx context.Context, e event.Event) error {
	msg, err := p.message(e)
	if err != nil {
		return err
	}
	select {
	case p.inFlight <- struct{}{}:
		defer func() { <-p.inFlight }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, ackWait, fmt.Errorf("no acknowledgement within %s", ackWait))
	defer cancel()
	lost, err := p.try(ctx, msg)
	if lost {
		_, err = p.try(ctx, msg) // the stream knows the message by its id
	}
	return err
}

func (p *publisher) message(e event.Event) (*nats.Msg, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	msg := nats.NewMsg(p.subject.of(e))
	if len(msg.Subject) > maxSubject {
		return nil, fmt.Errorf("%w: its subject would have %d bytes, %d at most can be sent",
			event.ErrRefused, len(msg.Subject), maxSubject)
	}
	msg.Data = data
	msg.Header.Set("Content-Type", event.ContentType)
	msg.Header.Set(nats.MsgIdHdr, e.Source+"#"+e.ID)
	if p.stream != "" {
		msg.Header.Set(nats.ExpectedStreamHdr, p.stream)
	}
	return msg, nil
}

// try sends a message once, and tells whether an error means a broken connection.
func (p *publisher) try(ctx context.Context, msg *nats.Msg) (lost bool, err error) {
	js, err := p.link.get(ctx)
	if err != nil {
		return false, err
	}
	_, err = js.PublishMsg(ctx, msg)
	switch {
	case err == nil:
		return false, nil
	case ctx.Err() != nil:
		return false, unanswered(context.Cause(ctx), js.Conn().LastError())
	case errors.Is(err, nats.ErrMaxPayload):
		return false, fmt.Errorf("%w: %w", event.ErrRefused, err)
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return false, p.noStream(err)
	}
	return js.Conn().IsClosed(), err
}

// unanswered adds what the server has said on the connection: a permission that is missing is told
// there alone.
func unanswered(err, said error) error {
	if said == nil {
		return err
	}
	return fmt.Errorf("%w; the connection's last error: %w", err, said)
}

func (p *publisher) noStream(err error) error {
	name := p.stream
	if name == "" {
		name = "NAME"
	}
	return fmt.Errorf("no stream listens on subject %q; create one: nats stream add %s --subjects '%s' --defaults: %w",
		p.subject, name, p.subject, err)
}

// Close has nothing to wait for: Publish returns when every event was acknowledged or failed.
func (p *publisher) Close() error {
	p.link.close()
	return nil
}
