// Package receiver sends messages to people: to a chat, a mailbox, a phone, or the rota of who is on call.
//
//	r, err := receiver.Open("slack://hooks.slack.com/services/T0/B0/secret", receiver.Config{})
//	answer, err := r.Send(ctx, receiver.Message{ID: "1", Message: message.Message{Text: "Order 42 waits"}})
//
// The address is the URL that the service gives, with the name of the service in place of https:
//
//	slack://hooks.slack.com/services/...        also mattermost:, rocketchat:, googlechat: and teams:
//	discord://discord.com/api/webhooks/...
//	telegram://TOKEN@api.telegram.org/CHAT
//	ntfy://ntfy.sh/TOPIC                        a phone; also gotify://HOST/TOKEN, pushover://TOKEN@api.pushover.net/USER
//	matrix://TOKEN@matrix.example.com/!ROOM:example.com
//	zulip://chat.example.com/api/v1/external/slack_incoming?api_key=KEY&stream=ops
//	pagerduty://KEY@events.pagerduty.com, opsgenie://KEY@api.opsgenie.com
//	smtp://USER:PASSWORD@HOST:587/?from=A&to=B  mail; smtps: for TLS from the beginning
//	https://example.com/hook                    JSON with the text
//	file:///var/log/alerts.txt, stdout:
//
// With +http, such as ntfy+http://10.0.0.7/alerts, it is sent without TLS. Every connection is to a public address, or
// to one that Config.Allow has, without a proxy. [NewPublisher] makes an event.Publisher of a receiver, which a
// forwarder sends events to.
package receiver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/prescient-go/prescient/internal/message"
	"github.com/prescient-go/prescient/internal/spoken"
)

// Message is a message with its identity.
type Message struct {
	// ID stays the same if the message is sent again.
	ID string
	message.Message
}

// Receiver sends messages. It is safe for concurrent use.
type Receiver interface {
	// Send sends a message, and returns what the service answered. The error matches event.ErrRefused if the service
	// will never take the message. It shows no secret of the address.
	Send(ctx context.Context, m Message) (answer string, err error)
	// Most is how many bytes the text of a message may have. A longer one is cut.
	Most() int
	Close() error
}

// Config configures a Receiver. The zero value allows public addresses.
type Config struct {
	// Allow lists networks to connect to although they are private, loopback or otherwise special.
	Allow []netip.Prefix
}

// ErrAddress is the error of an address that no receiver can have. It does not show the address.
var ErrAddress = errors.New("want the URL that the service gives, with the name of the service in place of https, " +
	"such as slack://hooks.slack.com/services/T0/B0/secret")

// Open opens the receiver that an address stands for. It does not connect. The caller closes it.
func Open(address string, cfg Config) (Receiver, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" {
		return nil, ErrAddress
	}
	if err := checkParts(u); err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "smtp", "smtps":
		return openMail(u, cfg)
	case "file", "stdout":
		return openFile(u)
	}
	name, plain := strings.CutSuffix(u.Scheme, "+http")
	s, known := services[name]
	if name == "http" && !plain {
		s, known, plain = services["https"], true, true
	}
	if !known {
		return nil, fmt.Errorf("there is no service %q%s", name, cmp.Or(spoken.Meant(name, Services()),
			": want one of "+strings.Join(Services(), ", ")))
	}
	if name == "https" && plain && u.Scheme != "http" {
		return nil, errors.New("want http, not https+http")
	}
	return openWeb(u, s, plain, cfg)
}

// checkParts returns what is wrong with an address of any service. It shows none of its parts.
func checkParts(u *url.URL) error {
	if text := u.Port(); text != "" {
		if port, err := strconv.Atoi(text); err != nil || port < 1 || port > 65535 {
			return errors.New("want a port from 1 to 65535")
		}
	}
	query, err := url.QueryUnescape(u.RawQuery)
	password, _ := u.User.Password()
	if err != nil || strings.ContainsFunc(u.User.Username()+password+u.Path+query, unicode.IsControl) {
		return errors.New("want no control character, such as %0A: copy the address from the service again")
	}
	if u.Fragment != "" {
		return errors.New("want # in the address as %23")
	}
	return nil
}

// Check returns why no receiver can have an address. The error shows no secret of it.
func Check(address string) error {
	r, err := Open(address, Config{})
	if err != nil {
		return err
	}
	return r.Close()
}

// Link returns the URL that a receiver connects to, with its scheme and port alone: of http or https, or of mail as
// smtp://host:587. It is empty for a file, and for what is no address.
func Link(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	_, plain := strings.CutSuffix(u.Scheme, "+http")
	switch {
	case u.Scheme == "smtps":
		return "smtp://" + host(u, "465")
	case u.Scheme == "smtp" && strings.Contains(u.RawQuery, "tls=off"):
		return "smtp://" + host(u, "25")
	case u.Scheme == "smtp":
		return "smtp://" + host(u, "587")
	case plain || u.Scheme == "http":
		return "http://" + u.Host
	}
	return "https://" + u.Host
}

// host returns the host of a URL with its port, or with the usual one.
func host(u *url.URL, port string) string {
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
}

// Services returns the schemes of addresses, sorted.
func Services() []string {
	list := slices.AppendSeq([]string{"file", "http", "smtp", "smtps", "stdout"}, maps.Keys(services))
	slices.Sort(list)
	return list
}
