package checks

import (
	"context"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/message"
	"github.com/prescient-go/prescient/internal/receiver"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/forward"
	"github.com/prescient-go/prescient/slots/metrics"
)

// Forwarding returns the configuration of a forwarder to the destinations and the receivers of the settings. The caller
// calls release when it no longer uses them. A destination that cannot be opened gets its events later. m may be nil.
func Forwarding(
	ctx context.Context, f *factory.Factory, db *sqlx.DB, m *metrics.Metrics,
) (cfg forward.Config, release func() error, err error) {
	events := f.Config().Events
	cfg = forward.Config{
		DB: db, Schema: f.Schema(), MaxRefusals: events.MaxRefusals, MaxAge: events.MaxRefusedFor,
		Continue: events.AfterDeadLetter == "continue", Logger: f.Log(),
		Lease: min(f.Config().Run.Lease, forward.DefaultLease),
	}
	release = func() (err error) {
		for _, to := range cfg.Destinations {
			err = errors.Join(err, to.Publisher.Close())
		}
		return err
	}
	for _, to := range f.Config().AllDestinations() {
		var publisher event.Publisher = lazy(func(ctx context.Context) (event.Publisher, error) {
			return OpenDestination(ctx, f, to)
		})
		if opened, err := OpenDestination(ctx, f, to); err == nil {
			publisher = opened
		}
		if m != nil {
			publisher = m.Destination(publisher)
		}
		cfg.Destinations = append(cfg.Destinations, forward.Destination{
			Name: to.Name, Address: to.URL.String(), Types: to.Types.List(), Publisher: publisher,
		})
	}
	for _, to := range f.Config().Receivers {
		destination, err := receiving(f, to)
		if err != nil {
			return cfg, release, errors.Join(err, release())
		}
		if m != nil {
			destination.Publisher = m.Destination(destination.Publisher)
		}
		cfg.Destinations = append(cfg.Destinations, destination)
	}
	return cfg, release, nil
}

// OpenDestination opens a destination of the settings. The caller closes it.
func OpenDestination(ctx context.Context, f *factory.Factory, to config.Destination) (event.Publisher, error) {
	events := f.Config().Events
	p, err := event.Open(ctx, to.URL.Reveal(), event.Config{
		Secret: events.Secret.Reveal(), Allow: events.AllowedNetworks, Logger: f.Log(),
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Setting(f, to), err)
	}
	return p, nil
}

// lazy publishes to a destination that could not be opened: it tries to open it for each batch. So
// such a destination fails no check, and gets its events once it is mended.
type lazy func(ctx context.Context) (event.Publisher, error)

// Publish fails if the destination still cannot be opened.
func (open lazy) Publish(ctx context.Context, events []event.Event) error {
	p, err := open(ctx)
	if err != nil {
		return err
	}
	defer p.Close() //nolint:errcheck // what was published is known
	return p.Publish(ctx, events)
}

// Close does nothing, because Publish closes what it opens.
func (lazy) Close() error { return nil }

// OpenReceiver opens a receiver of the settings. The caller closes it.
func OpenReceiver(f *factory.Factory, to config.Receiver) (receiver.Receiver, error) {
	r, err := receiver.Open(to.URL.Reveal(), receiver.Config{Allow: f.Config().Events.AllowedNetworks})
	if err != nil {
		return nil, &exit.Error{Code: exit.Usage, Err: fmt.Errorf("receivers.%s: %w", to.Name, err)}
	}
	return r, nil
}

// receiving returns a receiver as a destination. The publisher closes it.
func receiving(f *factory.Factory, to config.Receiver) (forward.Destination, error) {
	r, err := OpenReceiver(f, to)
	if err != nil {
		return forward.Destination{}, err
	}
	return forward.Destination{
		Name: message.Consumer(to.Name), Address: to.URL.String(), Types: []string{message.Type(to.Name)},
		Publisher: receiver.NewPublisher(receiver.PublisherConfig{Receiver: r, PerMinute: to.PerMinute}),
		SendAt:    receiver.SendAt, About: receiver.About, Keep: true,
	}, nil
}

// Setting names the setting of a destination.
func Setting(f *factory.Factory, to config.Destination) string {
	if to.Name == config.MainDestination {
		return fmt.Sprintf("events.destination (%s)", f.Origin("events.destination"))
	}
	return "events.destinations." + to.Name
}

// NameDestinations makes the outbox keep the events for the destinations of the settings.
func NameDestinations(ctx context.Context, f *factory.Factory, db *sqlx.DB) error {
	cfg, release, err := Forwarding(ctx, f, db, nil)
	if err != nil {
		return err
	}
	return errors.Join(forward.Name(ctx, cfg), release())
}

// Forward calls fn while a forwarder sends events to the destinations and receivers of the settings. With finish, it
// then tells findings and sends what waits, unless ctx has ended. Without, it tells findings from time to time.
func (b *Bound) Forward(ctx context.Context, f *factory.Factory, finish bool, fn func() error) error {
	if err := checkAlerts(f); err != nil {
		return err
	}
	cfg, release, err := Forwarding(ctx, f, b.DB, b.Metrics)
	if err != nil {
		return err
	}
	if len(cfg.Destinations) == 0 {
		return fn()
	}
	if finish {
		known := b.findings(ctx, f)
		for i, to := range cfg.Destinations {
			cfg.Destinations[i].Told = tellsOf(known, f, to.Name)
		}
	} else {
		work := fn
		fn = func() error { return b.tellWhile(ctx, f, work) }
	}
	started, err := forward.Start(ctx, cfg)
	if err != nil {
		return errors.Join(err, release())
	}
	b.forwarder.Store(started)
	err = fn()
	b.forwarder.Store(nil)
	if finish && ctx.Err() == nil {
		b.tellFindings(ctx, f, lookTime)
		started.Finish()
	} else {
		started.Stop()
	}
	return errors.Join(err, release())
}
