package kafka

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/prescient-go/prescient/internal/uri"
	"github.com/prescient-go/prescient/jobs/event"
)

// patience is for how long an event waits for a broker to take it.
const patience = 10 * time.Second

func init() { event.Register("kafka", open) }

func open(_ context.Context, to *url.URL, cfg event.Config) (event.Publisher, error) {
	target, err := parse(to)
	if err != nil {
		return nil, err
	}
	return &publisher{target: target, clients: newPool(options(target, cmp.Or(cfg.Logger, slog.Default())))}, nil
}

func options(to target, log *slog.Logger) []kgo.Opt {
	options := []kgo.Opt{
		kgo.SeedBrokers(to.brokers...),
		kgo.DefaultProduceTopic(to.topic),
		kgo.WithLogger(logger{log}),
		kgo.DisableClientMetrics(), // nothing is sent but events, and closing does not wait a second for a last push
		kgo.RecordDeliveryTimeout(patience),
		kgo.ProduceRequestTimeout(patience / 2),
		kgo.RequestTimeoutOverhead(patience / 2),
		kgo.DialTimeout(patience / 2),
		kgo.RetryTimeout(patience / 2),
		// Otherwise a record that was sent waits for its answer for ever. The price: it may arrive
		// although it failed.
		kgo.AllowIdempotentProduceCancellation(),
		// A cluster that is back is found within a second.
		kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.RetryBackoffFn(func(tries int) time.Duration {
			return min(time.Duration(tries)*250*time.Millisecond, time.Second)
		}),
	}
	if to.tls {
		options = append(options, kgo.DialTLS())
	}
	if to.sasl != nil {
		options = append(options, kgo.SASL(to.sasl))
	}
	return options
}

// target is a parsed URL.
type target struct {
	brokers []string
	topic   string
	tls     bool
	sasl    sasl.Mechanism
}

func parse(to *url.URL) (target, error) {
	t := target{topic: strings.TrimPrefix(to.Path, "/")}
	switch {
	case t.topic == "" || strings.Contains(t.topic, "/"):
		return t, errors.New("name one topic after the host: kafka://host:9092/topic")
	case to.Fragment != "":
		return t, errors.New("the URL has a fragment; write # as %23")
	}
	var ok bool
	if t.brokers, ok = uri.Hosts(to, "9092"); !ok {
		return t, errors.New("the hosts must be as in kafka://host:9092,other:9092/topic")
	}
	parameters, err := uri.Query(to, "sasl", "tls")
	if err != nil {
		return t, err
	}
	if t.tls, err = strconv.ParseBool(cmp.Or(parameters["tls"], "false")); err != nil {
		return t, errors.New("parameter tls must be true or false")
	}
	t.sasl, err = mechanism(to.User, parameters["sasl"])
	return t, err
}

func mechanism(user *url.Userinfo, name string) (sasl.Mechanism, error) {
	password, complete := user.Password()
	switch {
	case user == nil && name == "":
		return nil, nil
	case user.Username() == "" || !complete:
		return nil, errors.New("SASL takes a user and a password: kafka://user:password@host:9092/topic")
	}
	switch cmp.Or(name, "plain") {
	case "plain":
		return plain.Auth{User: user.Username(), Pass: password}.AsMechanism(), nil
	case "scram-sha-256":
		return scram.Auth{User: user.Username(), Pass: password}.AsSha256Mechanism(), nil
	case "scram-sha-512":
		return scram.Auth{User: user.Username(), Pass: password}.AsSha512Mechanism(), nil
	}
	return nil, errors.New("parameter sasl must be plain, scram-sha-256 or scram-sha-512")
}

// logger hands the client's warnings and errors on.
type logger struct{ to *slog.Logger }

func (logger) Level() kgo.LogLevel { return kgo.LogLevelWarn }

func (l logger) Log(level kgo.LogLevel, msg string, attrs ...any) {
	if level <= kgo.LogLevelWarn {
		l.to.Warn("kafka: "+msg, attrs...) //nolint:sloglint // the client's own words
	}
}
