package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sethvargo/go-retry"
)

// StatusError is an answer that is not 2xx. Find it with errors.As.
type StatusError struct {
	Status int
	// Body is the beginning of the answer, with *** in place of what it quotes of the URL's path
	// and query, and of Message.Secret.
	Body string
	// RetryAfter is how long the answer asks to wait. 0: it does not say.
	RetryAfter time.Duration
}

// Error returns the status, what it asks for, and the beginning of the answer.
func (e *StatusError) Error() string {
	text := strings.TrimSpace(fmt.Sprintf("status %d %s", e.Status, http.StatusText(e.Status)))
	if e.Status == http.StatusGone {
		text += ", so the receiver wants no more: take its URL out of the configuration"
	}
	if e.RetryAfter > 0 {
		text += fmt.Sprintf(", and asks to wait %s", e.RetryAfter)
	}
	if e.Body != "" {
		text += fmt.Sprintf(": %q", e.Body)
	}
	return text
}

// Temporary tells whether the same request may be answered otherwise later.
func (e *StatusError) Temporary() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return e.Status >= 500
}

// maxErrorBody is how many bytes of an answer an error shows.
const maxErrorBody = 300

func newStatusError(to *url.URL, secret string, resp *http.Response) *StatusError {
	hide := capabilities(to, secret)
	begin, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody+maxCapability)) // the status counts, and says enough
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrained)
	return &StatusError{
		Status:     resp.StatusCode,
		Body:       strings.TrimSpace(first(hide.Replace(string(begin)), maxErrorBody)),
		RetryAfter: retryAfter(resp.Header.Get("Retry-After")),
	}
}

// The shortest part of a path or a query that is hidden by itself, and the longest that is
// recognised at the end of what is shown. A capability is not shorter than the one: a token of Gotify has 15
// characters.
const (
	minCapability = 15
	maxCapability = 1 << 10
)

// capabilities returns what replaces a secret, and each part of a URL, that an answer must not tell readers of its
// error: a service often quotes the path that it does not know.
func capabilities(of *url.URL, secret string) *strings.Replacer {
	texts := []string{of.RequestURI(), of.EscapedPath(), of.Path, of.RawQuery, secret}
	whole := len(texts)
	texts = append(texts, strings.Split(of.Path, "/")...)
	for _, list := range of.Query() {
		texts = append(texts, list...)
	}
	var pairs []string
	for i, text := range texts {
		if i < whole && strings.Trim(text, "/") != "" || len(text) >= minCapability {
			pairs = append(pairs, text, "***")
		}
	}
	return strings.NewReplacer(pairs...)
}

// first returns the first n bytes of a text.
func first(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}

// retryAfter reads the header, in seconds or as a date. 0: it is not there, is neither, or the time
// has come.
func retryAfter(header string) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(0, at.Sub(now()))
	}
	return 0
}

// maxPause is the longest pause that Post makes, whatever an answer asks for.
const maxPause = time.Minute

var errTooLong = errors.New("the answer is too long")

// retry calls try until it succeeds, fails for good, or there is no try or time left. Its error is
// the last one.
func (c *Client) retry(ctx context.Context, try func() ([]byte, error)) (answer []byte, last error) {
	doubling := retry.WithMaxRetries(uint64(c.cfg.MaxAttempts-1),
		retry.WithJitterPercent(20, retry.NewExponential(c.cfg.Backoff)))
	pauses := retry.BackoffFunc(func() (time.Duration, bool) {
		pause, stop := doubling.Next()
		if status, ok := errors.AsType[*StatusError](last); ok {
			pause = max(pause, status.RetryAfter)
		}
		deadline, limited := ctx.Deadline()
		return pause, stop || pause > maxPause || limited && pause >= time.Until(deadline)
	})
	err := retry.Do(ctx, pauses, func(context.Context) error {
		answer, last = try()
		if last != nil && temporary(last) {
			return retry.RetryableError(last)
		}
		return last
	})
	if err != nil && last != nil && ctx.Err() != nil && !errors.Is(last, err) {
		return nil, fmt.Errorf("%w; the last try: %w", err, last)
	}
	return answer, err
}

// temporary tells whether another try may help.
func temporary(err error) bool {
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.Temporary()
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return false
	}
	return !errors.Is(err, ErrAddress) && !errors.Is(err, errRedirect) && !errors.Is(err, errTooLong)
}
