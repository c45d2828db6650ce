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

// Config says how a Client sends. The zero value is of use: unsigned, to public addresses alone.
type Config struct {
	// Secret signs each request: "whsec_" and base64. Several, separated by spaces, make several signatures, so that a
	// receiver can change from one to the next. Empty: unsigned.
	Secret string
	// Allow are addresses to connect to although they are private, loopback, link-local or otherwise special.
	Allow []netip.Prefix
	// Timeout limits one try, from the connection to the end of the answer. Default DefaultTimeout.
	Timeout time.Duration
	// MaxAttempts is how often a message is sent at the most. Default DefaultTries.
	MaxAttempts int
	// Backoff is how long to wait before the second try, about; it doubles with each. Default DefaultPause.
	Backoff time.Duration
	// Concurrency is how many messages are under way at once; the others wait. Default DefaultConcurrency.
	Concurrency int
	// MaxResponseBytes is how many bytes the body of an answer may have; a longer one is an error. 0: the body is not wanted,
	// so that Post returns none and its length does not matter.
	MaxResponseBytes int64
}

// Defaults of Config.
const (
	DefaultTimeout     = 20 * time.Second
	DefaultTries       = 4
	DefaultPause       = 500 * time.Millisecond
	DefaultConcurrency = 16
)

// Message is what is sent.
type Message struct {
	// ID is the same whenever the message is sent again. The receiver tells by it what it has already. It is sent as
	// webhook-id, percent-encoded where it has to be; see EncodeID.
	ID string
	// ContentType is the media type of Body.
	ContentType string
	Body        []byte
}

// Client sends messages. It is safe for concurrent use.
type Client struct {
	cfg    Config
	signer *Signer // nil: unsigned
	http   *http.Client
	places chan struct{} // one for each message under way
}

// New returns a client. Its error names the setting that is wrong, and does not show the secret.
func New(cfg Config) (*Client, error) {
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	cfg.MaxAttempts = cmp.Or(cfg.MaxAttempts, DefaultTries)
	cfg.Backoff = cmp.Or(cfg.Backoff, DefaultPause)
	cfg.Concurrency = cmp.Or(cfg.Concurrency, DefaultConcurrency)
	if cfg.Timeout < 0 || cfg.MaxAttempts < 0 || cfg.Backoff < 0 || cfg.Concurrency < 0 || cfg.MaxResponseBytes < 0 {
		return nil, fmt.Errorf("timeout %s, tries %d, pause %s, concurrency %d, max answer %d: none must be negative",
			cfg.Timeout, cfg.MaxAttempts, cfg.Backoff, cfg.Concurrency, cfg.MaxResponseBytes)
	}
	c := &Client{cfg: cfg, places: make(chan struct{}, cfg.Concurrency)}
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

// Close gives back the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Post sends a message until it is answered with a 2xx status, and returns the body of that answer if Config.MaxResponseBytes
// wants it. An answer with another status is a *StatusError, an address that is not allowed an ErrAddress.
func (c *Client) Post(ctx context.Context, to *url.URL, m Message) ([]byte, error) {
	if err := CheckURL(to); err != nil {
		return nil, err
	}
	select {
	case c.places <- struct{}{}:
		defer func() { <-c.places }()
	case <-ctx.Done():
		return nil, fmt.Errorf("post to %s: not sent: %w", Origin(to), context.Cause(ctx))
	}
	answer, err := c.retry(ctx, func() ([]byte, error) { return c.try(ctx, to, m) })
	if err != nil {
		return nil, fmt.Errorf("post to %s: %w", Origin(to), err)
	}
	return answer, nil
}

// now is the wall clock, as receivers refuse what was not signed within minutes of their own.
var now = time.Now //nolint:forbidigo // the time of a try that is signed, and what a date in Retry-After is compared with

// try sends the message once.
func (c *Client) try(ctx context.Context, to *url.URL, m Message) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.Timeout, fmt.Errorf("no answer within %s", c.cfg.Timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(m.Body))
	if err != nil {
		return nil, withoutURL(err)
	}
	req.Header.Set("Content-Type", m.ContentType)
	req.Header.Set("User-Agent", "prescient")
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
	if known := resp.StatusCode < 200 || resp.StatusCode > 299 || c.cfg.MaxResponseBytes == 0; known {
		defer time.AfterFunc(drainTime, cancel).Stop()
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, newStatusError(to, resp)
	}
	return c.read(resp.Body)
}

// maxDrained is how much of a body that is not wanted is read, so that the connection can be used again.
const maxDrained = 64 << 10

// drainTime is how long such a body may take. The status has told what became of the message, and a receiver that sends its
// answer byte by byte would hold the message until the timeout.
const drainTime = time.Second

func (c *Client) read(body io.Reader) ([]byte, error) {
	if c.cfg.MaxResponseBytes == 0 {
		_, _ = io.CopyN(io.Discard, body, maxDrained) // the message has arrived, whatever becomes of the rest
		return nil, nil
	}
	answer, err := io.ReadAll(io.LimitReader(body, c.cfg.MaxResponseBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the answer: %w", err)
	case int64(len(answer)) > c.cfg.MaxResponseBytes:
		return nil, fmt.Errorf("%w: it has more than %d bytes", errTooLong, c.cfg.MaxResponseBytes)
	}
	return answer, nil
}

// withoutURL takes the URL out of an error of net/http.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}
