package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestAnEndpointIsShownWithoutItsSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "",
		"outbox:":                              "outbox:",
		"stdout:":                              "stdout:",
		"file:///var/log/events.jsonl":         "file:///var/log/events.jsonl",
		"https://example.com":                  "https://example.com",
		"http://example.com:8080/":             "http://example.com:8080/",
		"https://example.com/hook":             "https://example.com/***",
		"https://example.com/hook?a=b":         "https://example.com/***",
		"https://example.com?sig=s3cret":       "https://example.com/***",
		"https://example.com/?sig=s3cret":      "https://example.com/***",
		"https://example.com//T0/B0/s3%2Fcret": "https://example.com/***",
		"HTTPS://example.com/s3cret":           "https://example.com/***",
		"https://app:s3cret@example.com/hook":  "https://app:***@example.com/***",
		"https://s3cret@example.com/hook":      "https://***@example.com/***",
		"nats://db:4222/a?token=s3cret":        "nats://db:4222/a?token=***",
		"nats://s3cret@db:4222/prescient.a":    "nats://***@db:4222/prescient.a",
		"kafka://app:s3cret@a:9092,b:9092/top": "kafka://app:***@a:9092,b:9092/top",
		"kafka://app:s3cret@a:9092,b/top":      "kafka://app:***@a:9092,b/top",
		"kafka://s3cret@a,[::1]:9092,b/top":    "kafka://***@a,[::1]:9092,b/top",
		"kafka://app:s3,cret/top":              Mask,
		"kafka://app:s3,cret/t@db:1,b/top":     Mask,
		"slack://hooks.slack.com/services/s3":  "slack://hooks.slack.com/***",
		"kafka://app:s3@cret@db/a@b":           Mask,
		"https://app:s3#cret@example.com":      Mask,
		"https:app:s3cret@example.com":         Mask,
		"host=db password=s3cret":              Mask,
		"s3cret":                               Mask,
		"%zz":                                  Mask,
	} {
		endpoint := NewEndpoint(text)
		diff(t, text, endpoint.Reveal())
		marshalled, err := json.Marshal(map[string]Endpoint{"to": endpoint})
		if err != nil {
			t.Fatal(err)
		}
		var back map[string]string
		if err := json.Unmarshal(marshalled, &back); err != nil {
			t.Fatal(err)
		}
		diff(t, []string{want, want, want}, []string{endpoint.String(), fmt.Sprintf("%#v", endpoint), back["to"]})
	}
}

func FuzzAnEndpointNeverShowsItsPassword(f *testing.F) {
	f.Add("https", "app", "example.com/hook?a=b")
	f.Add("nats", "", "a:1,b:2/subject")
	f.Fuzz(func(t *testing.T, scheme, user, rest string) {
		text := scheme + "://" + user + ":" + marker + "@" + rest
		if got := NewEndpoint(text).String(); strings.Contains(got, marker) {
			t.Errorf("%q shows the password: %q", text, got)
		}
	})
}

func TestASecretIsNeverShown(t *testing.T) {
	secret := NewSecret("s3cret")
	marshalled, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, []string{Mask, Mask, Mask, `"***"`}, []string{fmt.Sprint(secret), fmt.Sprintf("%#v", secret), fmt.Sprint(&secret), string(marshalled)})
	diff(t, "s3cret", secret.Reveal())
	diff(t, "", fmt.Sprint(Secret{})+Secret{}.Reveal())
}
