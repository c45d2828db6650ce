package receiver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/prescient-go/prescient/internal/message"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/event"
)

// DefaultPerMinute is the default of PublisherConfig.PerMinute.
const DefaultPerMinute = 30

// PublisherConfig configures a publisher.
type PublisherConfig struct {
	// Receiver sends the messages. Close closes it.
	Receiver Receiver
	// PerMinute is how many messages the receiver gets in a minute, at most. Messages above that are told in one
	// message. Defaults to DefaultPerMinute.
	PerMinute int
}

// NewPublisher returns a publisher that sends each event as a message. It sends messages with a SendAt to one recipient
// together. The forwarder calls it when they are due.
func NewPublisher(cfg PublisherConfig) event.Publisher {
	if cfg.PerMinute == 0 {
		cfg.PerMinute = DefaultPerMinute
	}
	service, is := cfg.Receiver.(*web)
	return &publisher{
		Receiver: cfg.Receiver, limit: rate.NewLimiter(rate.Limit(cfg.PerMinute)/60, cfg.PerMinute),
		incidents: is && service.incidents,
	}
}

// publisher has one caller at a time, the forwarder of its destination.
type publisher struct {
	Receiver
	limit *rate.Limiter // its burst is the messages of a minute
	// incidents says that the receiver gets messages that are Quiet.
	incidents bool
}

// unit is one message of one event or more.
type unit struct {
	of     []int // the events
	digest bool  // they have waited for each other
	ends   bool  // it ends an incident, and disturbs no person: no bound counts it
}

// Publish implements event.Publisher.
func (p *publisher) Publish(ctx context.Context, events []event.Event) error {
	errs := make([]error, len(events))
	messages := make([]Message, len(events))
	for i, e := range events {
		messages[i], errs[i] = Decode(e)
	}
	sent := false
	var down error // why the rest is not sent
	var failed failures
	units := p.units(messages, errs)
	for n := 0; n < len(units); n++ {
		u := units[n]
		if down == nil && !u.ends {
			down = p.wait(ctx)
		}
		if errors.Is(down, event.ErrThrottled) {
			fail(errs, u, down)
			continue
		}
		if down != nil {
			fail(errs, u, event.ErrBlocked)
			continue
		}
		switch err := p.send(ctx, u, events, messages, errs); {
		case err == nil:
			sent = true
			failed.blame(errs)
		case errors.Is(err, event.ErrBlocked):
		case errors.Is(err, event.ErrRefused):
			fail(errs, u, err)
		default:
			if failed.add(errs, u, err, sent) {
				down = err
			} else if !sent && len(failed) == mostFailures {
				n += skip(errs, units[n+1:], err)
			}
		}
	}
	if down == nil && len(failed) > 0 {
		down = failed[0].err
	}
	if down != nil && !sent && !errors.Is(down, event.ErrThrottled) {
		return down // nothing is known of any event
	}
	return event.Partial(errs)
}

// mostFailures is how many messages in a row a service may answer with an error before it is down. If it has taken no
// message, these may be the cause: then as many others follow.
const mostFailures = 3

// skip leaves out units, so that the next one is one of the rest at random. It returns how many. Later events of their
// subjects wait behind them.
func skip(errs []error, rest []unit, err error) (n int) {
	if len(rest) > 0 {
		n = rand.IntN(len(rest))
	}
	for _, u := range rest[:n] {
		fail(errs, u, fmt.Errorf("%w: %w", event.ErrNotSent, err))
	}
	return n
}

// answered is the error of a service that has answered. The message alone may be the cause, or the service.
type answered struct{ error }

func (a answered) Unwrap() error { return a.error }

// failures are units that have failed since the service took a message.
type failures []failure

type failure struct {
	unit
	err, unsent error
}

// add notes that a unit has failed, and reports whether the service is down. sent says that it has taken a message.
func (f *failures) add(errs []error, u unit, err error, sent bool) (down bool) {
	unsent := fmt.Errorf("%w: %w", event.ErrNotSent, err)
	fail(errs, u, unsent)
	*f = append(*f, failure{unit: u, err: err, unsent: unsent})
	_, is := errors.AsType[answered](err)
	return !is || len(*f) >= 2*mostFailures || sent && len(*f) >= mostFailures
}

// blame makes each failure one of its message, because the service has taken a later one.
func (f *failures) blame(errs []error) {
	for _, one := range *f {
		for _, i := range one.of {
			if errors.Is(errs[i], one.unsent) {
				errs[i] = one.err
			}
		}
	}
	*f = nil
}

// fail gives the events of a unit an error, unless they have one.
func fail(errs []error, u unit, err error) {
	for _, i := range u.of {
		if errs[i] == nil {
			errs[i] = err
		}
	}
}

// Decode returns the message of an event.
func Decode(e event.Event) (m Message, err error) {
	if err := json.Unmarshal(e.Data, &m.Message); err != nil || strings.TrimSpace(m.Text) == "" {
		return m, fmt.Errorf("%w: event %q is no message: its data need a text", event.ErrRefused, e.ID)
	}
	m.ID = e.Source + "#" + e.ID // two stores may give one ID
	if m.About == "" {
		m.About = m.ID
	}
	return m, nil
}

// About returns the problem that the message of an event tells of, and whether it tells that this is over.
func About(e event.Event) (problem string, over bool) {
	var m message.Message
	if err := json.Unmarshal(e.Data, &m); err != nil {
		return "", false
	}
	return m.About, m.Over
}

// SendAt returns when the message of an event is sent. The zero time: at once.
func SendAt(e event.Event) (at time.Time) {
	var m message.Message
	if err := json.Unmarshal(e.Data, &m); err == nil && m.SendAt != nil {
		at = *m.SendAt
	}
	return at
}

// units divides events into messages, in the order of their first events.
func (p *publisher) units(messages []Message, errs []error) (list []unit) {
	left := p.limit.Tokens()
	of := map[string]int{} // of digests and of what is above the bound, by recipient
	alone := 0
	for i, m := range messages {
		if errs[i] != nil || m.Quiet && !p.incidents {
			continue
		}
		if m.Over && p.incidents {
			list = append(list, unit{of: []int{i}, ends: true})
			continue
		}
		digest := m.SendAt != nil
		// One message is kept back, to tell what is above the bound.
		if !digest && (float64(alone) < left-1 || len(messages) == 1) {
			alone++
			list = append(list, unit{of: []int{i}})
			continue
		}
		key := fmt.Sprint(digest, " ", m.To)
		n, known := of[key]
		if !known {
			n, of[key] = len(list), len(list)
			list = append(list, unit{digest: digest})
		}
		list[n].of = append(list[n].of, i)
	}
	return list
}

// wait waits until one message may be sent. Returns event.ErrThrottled if the time of the batch is over before that.
func (p *publisher) wait(ctx context.Context) error {
	// Wait refuses everything once ctx has ended. So Allow comes first, and sending says what is wrong.
	if p.limit.Allow() || p.limit.Wait(ctx) == nil {
		return nil
	}
	<-ctx.Done() // Wait returns early if ctx ends too soon, and the forwarder would try again at once
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return event.ErrThrottled
	}
	return fmt.Errorf("the receiver gets at most %d messages a minute: %w", p.limit.Burst(), context.Cause(ctx))
}

// send sends a unit, without events behind a refused one of their subject. Returns event.ErrBlocked if none is left.
func (p *publisher) send(ctx context.Context, u unit, events []event.Event, messages []Message, errs []error) error {
	failed := map[string]int{} // subjects, with their first event that has failed
	for i, err := range slices.Backward(errs) {
		if err != nil && events[i].Subject != "" {
			failed[events[i].Subject] = i
		}
	}
	var ids, texts, pages []string
	var first Message
	over := true
	for _, i := range u.of {
		if first, is := failed[events[i].Subject]; is && first < i {
			errs[i] = event.ErrBlocked
			continue
		}
		if len(texts) == 0 {
			first = messages[i]
		}
		ids, over = append(ids, messages[i].ID), over && messages[i].Over
		texts, pages = append(texts, messages[i].Text), append(pages, messages[i].HTML)
	}
	heading := spoken.Count(len(texts), "message", "messages") + ":"
	if !u.digest {
		heading = fmt.Sprintf("%s at once; this receiver gets at most %d a minute:",
			spoken.Count(len(texts), "message", "messages"), p.limit.Burst())
	}
	switch {
	case len(texts) == 0:
		return event.ErrBlocked
	case len(texts) == 1:
		first.Text = cut(first.Text, p.Most())
	default:
		// It is another message than each of them: what ends one of them does not end it.
		first.ID, first.Over = hash(strings.Join(ids, "\n")), over
		first.About = first.ID
		first.Text = together(heading, texts, p.Most())
		first.HTML = togetherHTML(heading, texts, pages)
	}
	if len(first.HTML) > p.Most() {
		first.HTML = "" // the text is enough
	}
	_, err := p.Send(ctx, first)
	return err
}
