package receiver

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"github.com/prescient-go/prescient/internal/egress"
	"github.com/prescient-go/prescient/jobs/event"
)

// mailer is a receiver by mail.
type mailer struct {
	host    string
	dialer  *net.Dialer
	secure  bool // TLS from the beginning
	options []gomail.Option
	from    string
	to      string // addresses, separated by commas
}

// mailTime bounds the time of one mail.
const mailTime = 20 * time.Second

// errMail is the error of an address of mail.
var errMail = errors.New("want smtp://USER:PASSWORD@HOST:587/?from=ADDRESS&to=ADDRESS, with @ in USER and PASSWORD " +
	"as %40, and perhaps tls=off")

func openMail(u *url.URL, cfg Config) (Receiver, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" {
		return nil, errMail
	}
	for name := range query {
		if !slices.Contains([]string{"from", "to", "tls"}, name) {
			return nil, fmt.Errorf("there is no parameter %q: %w", name, errMail)
		}
	}
	m := &mailer{host: u.Hostname(), from: query.Get("from"), to: strings.Join(query["to"], ",")}
	if _, err := mail.ParseAddress(m.from); err != nil {
		return nil, fmt.Errorf("from is no mail address: %w", errMail)
	}
	if _, err := mail.ParseAddressList(m.to); err != nil && m.to != "" {
		return nil, fmt.Errorf("to is no mail address: %w", errMail)
	}
	m.dialer = egress.Dialer(cfg.Allow)
	m.options = []gomail.Option{gomail.WithTimeout(mailTime)}
	switch policy := query.Get("tls"); {
	case u.Scheme == "smtps" && policy == "":
		// dial makes TLS, because the client leaves it to a function that dials. It offers passwords only if it looks
		// for TLS itself.
		m.secure = true
		m.options = append(m.options, gomail.WithTLSPolicy(gomail.TLSOpportunistic), gomail.WithPort(gomail.DefaultPortSSL))
	case u.Scheme == "smtp" && policy == "":
		m.options = append(m.options, gomail.WithTLSPortPolicy(gomail.TLSMandatory))
	case u.Scheme == "smtp" && policy == "off":
		m.options = append(m.options, gomail.WithTLSPortPolicy(gomail.NoTLS))
	default:
		return nil, fmt.Errorf("tls is off, or not there: %w", errMail)
	}
	if port := u.Port(); port != "" {
		n, err := strconv.Atoi(port)
		if err != nil {
			return nil, errMail
		}
		m.options = append(m.options, gomail.WithPort(n))
	}
	if password, has := u.User.Password(); has {
		m.options = append(m.options, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover),
			gomail.WithUsername(u.User.Username()), gomail.WithPassword(password))
	}
	if _, err := gomail.NewClient(m.host, m.options...); err != nil {
		return nil, fmt.Errorf("%w: %w", errMail, err)
	}
	return m, nil
}

// mostSubject is the longest subject of a mail.
const mostSubject = 150

// Send implements Receiver.
func (m *mailer) Send(ctx context.Context, what Message) (string, error) {
	out, err := m.compose(what)
	if err != nil {
		return "", fmt.Errorf("%w: %w", event.ErrRefused, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, mailTime, fmt.Errorf("no answer within %s", mailTime))
	defer cancel()
	client, err := gomail.NewClient(m.host, append(slices.Clip(m.options), gomail.WithDialContextFunc(m.dial(ctx)))...)
	if err != nil {
		return "", err
	}
	err = client.DialAndSendWithContext(ctx, out)
	switch {
	case err == nil || out.IsDelivered(): // the server has taken it, whatever came after that
		return out.ServerResponse(), nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("send mail by %s: %w", m.host, context.Cause(ctx))
	}
	return "", m.explain(err)
}

// compose returns the mail of a message.
func (m *mailer) compose(what Message) (*gomail.Msg, error) {
	list, err := m.recipients(what.To)
	if err != nil {
		return nil, err
	}
	out := gomail.NewMsg()
	err = out.From(m.from)
	for _, one := range list {
		err = errors.Join(err, out.AddTo(one.String()))
	}
	if err != nil {
		return nil, err
	}
	out.Subject(cut(strings.TrimRight(firstLine(what.Text), ":"), mostSubject)) // of several messages: "2 messages:"
	_, domain, _ := strings.Cut(m.from, "@")
	out.SetMessageIDWithValue(hash(what.ID) + "@" + strings.TrimRight(domain, "> "))
	out.SetBodyString(gomail.TypeTextPlain, what.Text)
	if what.HTML != "" {
		out.AddAlternativeString(gomail.TypeTextHTML, what.HTML)
	}
	return out, nil
}

// recipients returns the addresses of a message. Its own recipient is one address: it may come from a row of a table,
// which must not send mail to more people.
func (m *mailer) recipients(to string) ([]*mail.Address, error) {
	if to == "" {
		return mail.ParseAddressList(m.to)
	}
	one, err := mail.ParseAddress(to)
	if err == nil {
		return []*mail.Address{one}, nil
	}
	if list, other := mail.ParseAddressList(to); other == nil && len(list) > 1 {
		return nil, fmt.Errorf("the recipient is %d mail addresses, and may be one: name several in the address of the "+
			"receiver, or in a step each", len(list))
	}
	return nil, fmt.Errorf("the recipient is no mail address: %w", err)
}

// hash returns a short text of letters and digits, the same for the same id.
func hash(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}

// dial returns a function that connects, and closes the connection when ctx ends: the client looks at no context after
// it has connected.
func (m *mailer) dial(ctx context.Context) gomail.DialContextFunc {
	return func(dialing context.Context, network, address string) (net.Conn, error) {
		conn, err := m.dialer.DialContext(dialing, network, address)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { _ = conn.Close() })
		if m.secure {
			return tls.Client(conn, &tls.Config{ServerName: m.host, MinVersion: tls.VersionTLS12}), nil
		}
		return conn, nil
	}
}

// explain adds event.ErrRefused if the server has refused this mail, and may take others.
func (m *mailer) explain(err error) error {
	failed, is := errors.AsType[*gomail.SendError](err)
	switch {
	case !is || failed.ErrorCode() == 0: // the server has not answered
		return advised(fmt.Errorf("send mail by %s: %w", m.host, err))
	}
	err = fmt.Errorf("send mail by %s: %s", m.host, answerOf(failed))
	switch {
	case failed.Reason == gomail.ErrSMTPRcptTo: // also 4xx: a full mailbox stops no mail to others
	case failed.Reason != gomail.ErrSMTPData && failed.Reason != gomail.ErrSMTPDataClose:
		return err
	case failed.IsTemp():
		return answered{err}
	}
	return fmt.Errorf("%w: %w", event.ErrRefused, err)
}

// answer matches what the server of mail said, in an error that also names the command, the recipients and the mail.
var answer = regexp.MustCompile(`command: (\d{3}) "?(.*?)"?(?:, affected recipient\(s\): (.*?))?` +
	`(?:, affected message ID: .*)?$`)

// answerOf returns what the server of mail said, and about whom.
func answerOf(err *gomail.SendError) string {
	found := answer.FindStringSubmatch(err.Error())
	switch {
	case found == nil:
		return err.Error()
	case found[3] == "":
		return found[1] + " " + found[2]
	}
	return fmt.Sprintf("%s %s (to %s)", found[1], found[2], found[3])
}

// advised adds to an error about TLS or a log-in what to write into the address of a receiver.
func advised(err error) error {
	if err == nil {
		return nil
	}
	advice := ""
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	_, untrusted := errors.AsType[x509.UnknownAuthorityError](err)
	switch {
	case strings.Contains(err.Error(), "does not support STARTTLS"):
		advice = "the server offers no TLS at this port. In a network that you trust, add tls=off to the address"
	case strings.Contains(err.Error(), "does not support SMTP AUTH"):
		advice = "the server takes no password at this port: leave out USER:PASSWORD, or use another port, " +
			"such as 587"
	case noTLS || strings.Contains(err.Error(), "gave HTTP response to HTTPS"):
		advice = "the server does not begin with TLS at this port. Of mail, write smtp in place of smtps. " +
			"In a network that you trust, write +http behind the name of another service, such as ntfy+http"
	case untrusted:
		advice = "this machine does not know who signed the certificate: install the certificate of that authority, or " +
			"name its file in SSL_CERT_FILE"
	default:
		return err
	}
	return fmt.Errorf("%w: %s", err, advice)
}

// Most implements Receiver.
func (m *mailer) Most() int { return 256 << 10 }

// Close implements Receiver.
func (m *mailer) Close() error { return nil }
