package egress

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var hook = &url.URL{Scheme: "https", Host: "example.com", Path: "/hook"}

// transport answers in the stead of a network, so that the time of a test's bubble goes on by
// itself.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// fake returns a client whose tries are answered by the steps, the last one again and again, and
// when each try was.
func fake(t *testing.T, cfg Config, steps ...transport) (client *Client, at func() []time.Duration) {
	t.Helper()
	client, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	var tries []time.Duration
	client.http.Transport = transport(func(req *http.Request) (*http.Response, error) {
		step := steps[min(len(tries), len(steps)-1)]
		tries = append(tries, time.Since(start))
		return step(req)
	})
	return client, func() []time.Duration { return tries }
}

func answer(status int, header ...string) transport {
	return func(*http.Request) (*http.Response, error) {
		resp := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("body"))}
		for i := 0; i < len(header); i += 2 {
			resp.Header.Set(header[i], header[i+1])
		}
		return resp, nil
	}
}

func fails(err error) transport {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// hangs answers when the request is given up.
func hangs(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, context.Cause(req.Context())
}

func TestATemporaryFailureIsTriedAgainAfterADoublingPause(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]transport{
		"408": answer(408), "425": answer(425), "429": answer(429), "500": answer(500), "502": answer(502), "503": answer(503), "504": answer(504),
		"a network error": fails(errors.New("connection reset by peer")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, tries := fake(t, Config{}, failure)
				_, err := client.Post(t.Context(), hook, Message{ID: "1"})
				if err == nil {
					t.Fatal("it was sent")
				}
				at := tries()
				if len(at) != DefaultMaxAttempts {
					t.Fatalf("%d tries", len(at))
				}
				for i, pause := 1, DefaultBackoff; i < len(at); i, pause = i+1, 2*pause {
					if got := at[i] - at[i-1]; got < pause*4/5 || got > pause*6/5 {
						t.Errorf("pause %d was %s, want about %s", i, got, pause)
					}
				}
				client, tries = fake(t, Config{MaxAttempts: 2}, failure, answer(204))
				if _, err := client.Post(t.Context(), hook, Message{ID: "1"}); err != nil || len(tries()) != 2 {
					t.Errorf("%d tries, %v", len(tries()), err)
				}
			})
		})
	}
}

func TestAFinalAnswerIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{
		304: `status 304 Not Modified: "body"`,
		400: `status 400 Bad Request: "body"`,
		401: `status 401 Unauthorized: "body"`,
		404: `status 404 Not Found: "body"`,
		410: `status 410 Gone, so the receiver wants no more: take its URL out of the configuration: "body"`,
		499: `status 499: "body"`,
	} {
		synctest.Test(t, func(t *testing.T) {
			client, tries := fake(t, Config{}, answer(status))
			_, err := client.Post(t.Context(), hook, Message{ID: "1"})
			answered, ok := errors.AsType[*StatusError](err)
			if !ok || answered.Status != status || answered.Temporary() || err.Error() != "post to https://example.com: "+want {
				t.Errorf("%v, want %s", err, want)
			}
			if at := tries(); len(at) != 1 {
				t.Errorf("%d: tries at %v", status, at)
			}
		})
	}
}

func TestRetryAfterIsWaitedFor(t *testing.T) {
	t.Parallel()
	inBubble := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // where synctest begins
	for header, want := range map[string]time.Duration{
		"7": 7 * time.Second,
		"0": DefaultBackoff,
		inBubble.Add(30 * time.Second).Format(http.TimeFormat):  30 * time.Second,
		inBubble.Add(-30 * time.Second).Format(http.TimeFormat): DefaultBackoff,
		"60":                      time.Minute,
		"soon":                    DefaultBackoff,
		"-5":                      DefaultBackoff,
		"99999999999999999999999": DefaultBackoff,
	} {
		for _, status := range []int{429, 503} {
			synctest.Test(t, func(t *testing.T) {
				client, tries := fake(t, Config{}, answer(status, "Retry-After", header), answer(200))
				if _, err := client.Post(t.Context(), hook, Message{ID: "1"}); err != nil {
					t.Fatal(err)
				}
				if got := tries()[1]; got != want && (want != DefaultBackoff || got < want*4/5 || got > want*6/5) {
					t.Errorf("%d, Retry-After %q: waited %s, want %s", status, header, got, want)
				}
			})
		}
	}
}

func TestWhatThereIsNoTimeForIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		failure transport
		limit   time.Duration
		tries   int
		want    string
	}{
		"the deadline is before Retry-After": {answer(429, "Retry-After", "31"), 30 * time.Second, 1, "asks to wait 31s"},
		"the deadline is before the pause":   {answer(503), 2 * time.Second, 3, "503"},
		"Retry-After is an hour":             {answer(503, "Retry-After", "3600"), 24 * time.Hour, 1, "asks to wait 1h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.limit)
				defer cancel()
				client, tries := fake(t, Config{}, test.failure)
				_, err := client.Post(ctx, hook, Message{ID: "1"})
				if _, ok := errors.AsType[*StatusError](err); !ok || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v, want %s", err, test.want)
				}
				if ctx.Err() != nil || len(tries()) != test.tries {
					t.Errorf("tries at %v, then %v", tries(), ctx.Err())
				}
			})
		})
	}
}

func TestATryThatHangsIsGivenUpAndTheNextIsMade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, tries := fake(t, Config{Timeout: 3 * time.Second}, hangs, answer(200))
		_, err := client.Post(t.Context(), hook, Message{ID: "1"})
		if err != nil || tries()[1] < 3*time.Second || tries()[1] > 4*time.Second {
			t.Errorf("tries at %v, %v", tries(), err)
		}
		client, tries = fake(t, Config{Timeout: 3 * time.Second, MaxAttempts: 2}, hangs)
		_, err = client.Post(t.Context(), hook, Message{ID: "1"})
		if err == nil || !strings.HasSuffix(err.Error(), "no answer within 3s") || len(tries()) != 2 {
			t.Errorf("%d tries, %v", len(tries()), err)
		}
	})
}

func TestTheEndOfTheContextEndsAPostAtOnce(t *testing.T) {
	t.Parallel()
	errStopped := errors.New("stopped by a test")
	for name, test := range map[string]struct {
		steps []transport
		want  string
	}{
		"in a try":                {[]transport{hangs}, "stopped by a test"},
		"in a pause":              {[]transport{answer(503, "Retry-After", "50")}, "stopped by a test; the last try: status 503"},
		"in a pause after a hang": {[]transport{fails(errors.New("reset")), answer(503, "Retry-After", "50")}, "stopped by a test; the last try: status 503"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(10*time.Second, func() { cancel(errStopped) })
				client, _ := fake(t, Config{}, test.steps...)
				_, err := client.Post(ctx, hook, Message{ID: "1"})
				if !errors.Is(err, errStopped) || !strings.Contains(err.Error(), test.want) || time.Since(start) != 10*time.Second {
					t.Errorf("after %s: %v, want %s", time.Since(start), err, test.want)
				}
				if _, err := client.Post(ctx, hook, Message{ID: "2"}); !errors.Is(err, errStopped) {
					t.Errorf("and then: %v", err)
				}
			})
		})
	}
}

func TestEachTryIsSignedWithItsOwnTimeAndTheSameID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ids, stamps, signatures []string
		refuse := func(req *http.Request) (*http.Response, error) {
			ids, stamps = append(ids, req.Header.Get(HeaderID)), append(stamps, req.Header.Get(HeaderTimestamp))
			signatures = append(signatures, req.Header.Get(HeaderSignature))
			return answer(503, "Retry-After", "5")(req)
		}
		client, _ := fake(t, Config{Secret: "whsec_" + strings.Repeat("A", 32)}, refuse)
		_, _ = client.Post(t.Context(), hook, Message{ID: "a.b"})
		if want := []string{"946684800", "946684805", "946684810", "946684815"}; !slices.Equal(stamps, want) {
			t.Errorf("times %v, want %v", stamps, want)
		}
		if n := len(slices.Compact(ids)); n != 1 || ids[0] != "a%2Eb" {
			t.Errorf("ids %v", ids)
		}
		if n := len(slices.Compact(signatures)); n != DefaultMaxAttempts {
			t.Errorf("%d signatures", n)
		}
	})
}

func TestASettingThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{{Timeout: -1}, {MaxAttempts: -1}, {Backoff: -1}, {Idle: -1}, {MaxResponseBytes: -1}, {Secret: "x"}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v", cfg)
		}
	}
}
