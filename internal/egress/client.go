package egress

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// Config configures a Client. The zero value sends unsigned messages to public addresses.
type Config struct {
	// Secret signs each request: "whsec_" and base64. Several secrets, separated by spaces, make
	// several signatures, so that a receiver can change from one to the next. Empty: unsigned.
	Secret string
	// Allow lists networks to connect to although they are private, loopback, link-local or
	// otherwise special.
	Allow []netip.Prefix
	// Timeout limits one attempt, from the connection to the end of the answer. Defaults to
	// DefaultTimeout.
	Timeout time.Duration
	// MaxAttempts bounds how often a message is sent. Defaults to DefaultMaxAttempts.
	MaxAttempts int
	// Backoff is the approximate pause before the second attempt. It doubles with each attempt.
	// Defaults to DefaultBackoff.
	Backoff time.Duration
	// Idle bounds the connections that stay open for later messages. Defaults to DefaultIdle. Callers bound the messages
	// that are sent at once: a wait for others here would count as time of the message.
	Idle int
	// MaxResponseBytes bounds the body of an answer; a longer one is an error. 0: Post reads no
	// body and returns none.
	MaxResponseBytes int64
	// StatusDecides makes a message with a 2xx answer sent whatever the body: a longer body than MaxResponseBytes is
	// cut, and so is a broken one. Default: both are errors, because the body is a result.
	StatusDecides bool
}

// Defaults of Config.
const (
	DefaultTimeout     = 20 * time.Second
	DefaultMaxAttempts = 4
	DefaultBackoff     = 500 * time.Millisecond
	DefaultIdle        = 16
)

// Message is a message to send.
type Message struct {
	// ID stays the same if the message is sent again, so that the receiver recognizes it. It is
	// sent as webhook-id, percent-encoded if necessary; see EncodeID.
	ID string
	// ContentType is the media type of Body.
	ContentType string
	Body        []byte
	// Method is the method of HTTP. Defaults to POST.
	Method string
	// Authorization is the value of the header of that name. Optional.
	Authorization string
	// Secret is a part of the header or of the body that errors must not show. Optional.
	Secret string
}

// Client sends messages. It is safe for concurrent use.
type Client struct {
	cfg    Config
	signer *Signer // nil: unsigned
	http   *http.Client
}

// New returns a client. Its error names the wrong setting, and does not show the secret.
func New(cfg Config) (*Client, error) {
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	cfg.MaxAttempts = cmp.Or(cfg.MaxAttempts, DefaultMaxAttempts)
	cfg.Backoff = cmp.Or(cfg.Backoff, DefaultBackoff)
	cfg.Idle = cmp.Or(cfg.Idle, DefaultIdle)
	if cfg.Timeout < 0 || cfg.MaxAttempts < 0 || cfg.Backoff < 0 || cfg.Idle < 0 || cfg.MaxResponseBytes < 0 {
		return nil, fmt.Errorf("timeout %s, tries %d, pause %s, idle connections %d, max answer %d: none must be negative",
			cfg.Timeout, cfg.MaxAttempts, cfg.Backoff, cfg.Idle, cfg.MaxResponseBytes)
	}
	c := &Client{cfg: cfg}
	if cfg.Secret != "" {
		signer, err := NewSigner(cfg.Secret)
		if err != nil {
			return nil, err
		}
		c.signer = signer
	}
	c.http = &http.Client{Transport: newTransport(cfg), CheckRedirect: checkRedirect}
	return c, nil
}

// Close closes the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Post sends a message until the answer has a 2xx status, and returns the body of that answer up to
// Config.MaxResponseBytes. Returns a *StatusError for another status, and ErrAddress for an address
// that is not allowed.
func (c *Client) Post(ctx context.Context, to *url.URL, m Message) ([]byte, error) {
	if err := CheckURL(to); err != nil {
		return nil, err
	}
	answer, err := c.retry(ctx, func() ([]byte, error) { return c.try(ctx, to, m) })
	if err != nil {
		return nil, fmt.Errorf("post to %s: %w", Origin(to), err)
	}
	return answer, nil
}

// now is the wall clock, because receivers refuse a signature that is minutes off their own clock.
var now = time.Now //nolint:forbidigo // signs an attempt, and is compared with the date of Retry-After

// try sends the message once.
func (c *Client) try(ctx context.Context, to *url.URL, m Message) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.Timeout, fmt.Errorf("no answer within %s", c.cfg.Timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, cmp.Or(m.Method, http.MethodPost), to.String(), bytes.NewReader(m.Body))
	if err != nil {
		return nil, withoutURL(err)
	}
	req.Header.Set("Content-Type", m.ContentType)
	req.Header.Set("User-Agent", "prescient")
	if m.Authorization != "" {
		req.Header.Set("Authorization", m.Authorization)
	}
	id := EncodeID(m.ID)
	req.Header.Set(HeaderID, id)
	if c.signer != nil {
		c.signer.Sign(req.Header, id, now(), m.Body)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer resp.Body.Close() //nolint:errcheck // the answer was read
	failed := resp.StatusCode < 200 || resp.StatusCode > 299
	if failed || c.cfg.MaxResponseBytes == 0 || c.cfg.StatusDecides {
		defer time.AfterFunc(drainTime, cancel).Stop()
	}
	if failed {
		return nil, newStatusError(to, m.Secret, resp)
	}
	return c.read(resp.Body)
}

// maxDrained bounds the unwanted part of a body that is read so that the connection can be reused.
const maxDrained = 64 << 10

// drainTime bounds the time for that. The status has decided about the message, but a receiver that
// sends its answer byte by byte would block until the timeout.
const drainTime = time.Second

func (c *Client) read(body io.Reader) ([]byte, error) {
	if c.cfg.MaxResponseBytes == 0 {
		_, _ = io.CopyN(io.Discard, body, maxDrained) // the message has arrived; an error of the rest does not matter
		return nil, nil
	}
	answer, err := io.ReadAll(io.LimitReader(body, c.cfg.MaxResponseBytes+1))
	switch {
	case c.cfg.StatusDecides:
		return answer[:min(int64(len(answer)), c.cfg.MaxResponseBytes)], nil
	case err != nil:
		return nil, fmt.Errorf("read the answer: %w", err)
	case int64(len(answer)) > c.cfg.MaxResponseBytes:
		return nil, fmt.Errorf("%w: it has more than %d bytes", errTooLong, c.cfg.MaxResponseBytes)
	}
	return answer, nil
}

// withoutURL removes the URL from an error of net/http.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}
