package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"unicode"

	"github.com/nats-io/nats.go"

	"github.com/prescient-go/prescient/internal/uri"
	"github.com/prescient-go/prescient/jobs/event"
)

func init() {
	event.Register("nats", open)
	event.Register("tls", open)
}

func open(_ context.Context, to *url.URL, cfg event.Config) (event.Publisher, error) {
	subject, err := parseSubject(strings.TrimPrefix(to.Path, "/"))
	if err != nil {
		return nil, err
	}
	if to.Fragment != "" {
		return nil, errors.New("the URL has a fragment; write # as %23")
	}
	parameters, err := uri.Query(to, "stream")
	if err != nil {
		return nil, err
	}
	options, err := options(to, cmp.Or(cfg.Logger, slog.Default()))
	if err != nil {
		return nil, err
	}
	return &publisher{
		subject:  subject,
		stream:   parameters["stream"],
		link:     &link{options: options},
		inFlight: make(chan struct{}, maxInFlight),
	}, nil
}

// options are those of one connection, which is never mended: a new one is made when one is needed.
func options(to *url.URL, log *slog.Logger) (nats.Options, error) {
	options := nats.GetDefaultOptions()
	options.AllowReconnect = false
	options.Name = "prescient"
	options.Secure = to.Scheme == "tls"
	options.PingInterval = pingInterval
	options.FlusherTimeout = ackWait / 2
	options.Timeout = ackWait // a handshake under load may take longer than the client's default of 2 s
	options.AsyncErrorCB = func(_ *nats.Conn, _ *nats.Subscription, err error) {
		log.Warn("NATS reports an error", "error", err)
	}
	hosts, ok := uri.Hosts(to, "4222")
	if !ok {
		return options, errors.New("the hosts must be as in nats://host:4222,other:4222/subject")
	}
	for _, host := range hosts {
		options.Servers = append(options.Servers, to.Scheme+"://"+host)
	}
	if password, ok := to.User.Password(); ok {
		options.User, options.Password = to.User.Username(), password
	} else if to.User != nil {
		options.Token = to.User.Username()
	}
	return options, nil
}

// subject is where events go: prefix alone, or, if keyed, prefix and the event's Subject.
type subject struct {
	prefix string
	keyed  bool
}

func parseSubject(text string) (subject, error) {
	if text == "" {
		return subject{}, errors.New("name a subject after the host: nats://host:4222/subject")
	}
	prefix, keyed := strings.CutSuffix(text, ".*")
	for token := range strings.SplitSeq(prefix, ".") {
		if token == "" || strings.ContainsAny(token, "*>") || strings.ContainsFunc(token, func(r rune) bool {
			return unicode.IsSpace(r) || unicode.IsControl(r)
		}) {
			return subject{}, fmt.Errorf("subject %q: tokens between dots must not be empty, nor hold spaces, * or >; "+
				"only the last may be *", text)
		}
	}
	return subject{prefix: prefix, keyed: keyed}, nil
}

// String returns the subject that a stream must listen on.
func (s subject) String() string {
	if s.keyed {
		return s.prefix + ".*"
	}
	return s.prefix
}

// of returns the subject of an event.
func (s subject) of(e event.Event) string {
	if !s.keyed {
		return s.prefix
	}
	var text strings.Builder
	text.WriteString(s.prefix + ".")
	for _, b := range []byte(cmp.Or(e.Subject, "_")) {
		switch {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == '-', b == '_':
			text.WriteByte(b)
		default:
			fmt.Fprintf(&text, "%%%02X", b)
		}
	}
	return text.String()
}
