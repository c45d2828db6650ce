package egress_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/egress"
)

const (
	secret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	oldSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
)

// The vector is the one that the libraries of Standard Webhooks are tested with.
func TestTheSignatureIsThatOfStandardWebhooks(t *testing.T) {
	t.Parallel()
	header := http.Header{}
	newSigner(t, secret).Sign(header, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 999999999), []byte(`{"test": 2432232314}`))
	for name, want := range map[string]string{
		"webhook-id":        "msg_p5jXN8AQM9LWM0D4loKWxJek",
		"webhook-timestamp": "1614265330",
		"webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestEachSecretMakesASignature(t *testing.T) {
	t.Parallel()
	at, body := time.Unix(1772357400, 0), []byte(`{"a":1}`)
	header := http.Header{}
	newSigner(t, "  "+secret+" "+oldSecret+"\n").Sign(header, "1", at, body)
	for _, s := range []string{secret, oldSecret} {
		if !verify(header, body, s, at) {
			t.Errorf("no signature of %s in %v", s, header)
		}
	}
	switch {
	case verify(header, body, "whsec_"+strings.Repeat("B", 32), at):
		t.Error("it is a signature of another secret, too")
	case verify(header, []byte(`{"a":2}`), secret, at):
		t.Error("it is a signature of another body, too")
	case verify(header, body, secret, at.Add(10*time.Minute)):
		t.Error("the receiver checks no time")
	}
}

func TestABadSecretIsRefusedAndNotShown(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                 "must not be empty",
		" ":                                "must not be empty",
		"hunter2":                          `webhook secret 1: must begin with "whsec_"`,
		secret + " whsk_aHVudGVyMg==":      `webhook secret 2: must begin with "whsec_"`,
		"whsec_hunter2!":                   "must be base64",
		"whsec_" + strings.Repeat("A", 31): "must be base64",
		"whsec_aHVudGVyMg==":               "must be base64 of 24 to 64 bytes, is of 7",
		"whsec_" + strings.Repeat("A", 88): "must be base64 of 24 to 64 bytes, is of 66",
	} {
		_, err := egress.NewSigner(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		} else if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "aHVudGVyMg") {
			t.Errorf("%v shows the secret", err)
		}
	}
}

func TestAnIDIsFitForAHeaderAndHasNoDot(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"reminder-1772357400":     "reminder-1772357400",
		"a_b~c$d&e+f=g:h@i":       "a_b~c$d&e+f=g:h@i",
		"com.example.r-1":         "com%2Eexample%2Er-1",
		"a b/c%d":                 "a%20b%2Fc%25d",
		"line\r\nwebhook-id: 2":   "line%0D%0Awebhook-id:%202",
		"\u03c0\u03b1\U0001F4E6!": "%CF%80%CE%B1%F0%9F%93%A6%21",
	} {
		if got := egress.EncodeID(id); got != want {
			t.Errorf("%q became %q, want %q", id, got, want)
		}
	}
}

func newSigner(t *testing.T, secrets string) *egress.Signer {
	t.Helper()
	signer, err := egress.NewSigner(secrets)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// verify is a receiver's check, written from the specification: the headers are there, the time is
// within five minutes of the receiver's clock, and one of the v1 signatures is that of
// "<id>.<timestamp>.<body>".
func verify(header http.Header, body []byte, secret string, clock time.Time) bool {
	id, stamp := header.Get("Webhook-Id"), header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if id == "" || strings.Contains(id, ".") || err != nil || clock.Sub(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return false
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(slices.Concat([]byte(id), []byte{'.'}, []byte(stamp), []byte{'.'}, body))
	want := mac.Sum(nil)
	return slices.ContainsFunc(strings.Split(header.Get("Webhook-Signature"), " "), func(signature string) bool {
		version, text, _ := strings.Cut(signature, ",")
		got, err := base64.StdEncoding.DecodeString(text)
		return version == "v1" && err == nil && hmac.Equal(got, want)
	})
}
