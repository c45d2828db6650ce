package receiver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"github.com/prescient-go/prescient/jobs/egress"
	"github.com/prescient-go/prescient/jobs/event"
)

// mailer is a receiver by mail.
type mailer struct {
	host    string
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
	m.options = []gomail.Option{
		gomail.WithTimeout(mailTime), gomail.WithDialContextFunc(egress.Dialer(cfg.Allow).DialContext),
	}
	switch tls := query.Get("tls"); {
	case u.Scheme == "smtps" && tls == "":
		m.options = append(m.options, gomail.WithSSLPort(false))
	case u.Scheme == "smtp" && tls == "":
		m.options = append(m.options, gomail.WithTLSPortPolicy(gomail.TLSMandatory))
	case u.Scheme == "smtp" && tls == "off":
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
	to := m.to
	if what.To != "" {
		to = what.To
	}
	list, err := mail.ParseAddressList(to)
	if err != nil {
		return "", fmt.Errorf("%w: the recipient is no mail address: %w", event.ErrRefused, err)
	}
	out := gomail.NewMsg()
	err = out.From(m.from)
	for _, one := range list {
		err = errors.Join(err, out.AddTo(one.String()))
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", event.ErrRefused, err)
	}
	out.Subject(cut(firstLine(what.Text), mostSubject))
	hash := sha256.Sum256([]byte(what.ID))
	_, domain, _ := strings.Cut(m.from, "@")
	out.SetMessageIDWithValue(hex.EncodeToString(hash[:16]) + "@" + strings.TrimRight(domain, "> "))
	out.SetBodyString(gomail.TypeTextPlain, what.Text)
	client, err := gomail.NewClient(m.host, m.options...)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, mailTime, fmt.Errorf("no answer within %s", mailTime))
	defer cancel()
	if err := client.DialAndSendWithContext(ctx, out); err != nil {
		return "", m.explain(err)
	}
	return out.ServerResponse(), nil
}

// explain adds event.ErrRefused if the server has refused this mail, and may take others.
func (m *mailer) explain(err error) error {
	err = fmt.Errorf("send mail by %s: %w", m.host, err)
	failed, is := errors.AsType[*gomail.SendError](err)
	switch {
	case !is || failed.ErrorCode() == 0: // the server has not answered
		return err
	case failed.Reason == gomail.ErrSMTPRcptTo: // also 4xx: a full mailbox stops no mail to others
	case failed.IsTemp() || failed.Reason != gomail.ErrSMTPData && failed.Reason != gomail.ErrSMTPDataClose:
		return err
	}
	return fmt.Errorf("%w: %w", event.ErrRefused, err)
}

// Most implements Receiver.
func (m *mailer) Most() int { return 256 << 10 }

// Close implements Receiver.
func (m *mailer) Close() error { return nil }
