package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestAURLRevealsItsPasswordOnlyOnDemand(t *testing.T) {
	const text = "postgres://app:s3cret@db/orders"
	c := Default()
	c.Database.URL = NewURL(text)
	c.Events.Destination, c.Events.Secret = NewEndpoint("https://app:s3cret@example.com"), NewSecret("s3cret")
	c.HTTPJobs = []HTTPJob{{URL: c.Events.Destination, Secret: c.Events.Secret}}
	diff(t, text, c.Database.URL.Reveal())

	hidden := struct{ c Config }{c}
	pointed := &hidden
	var log bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(handler).Info("start", "config", c, "url", c.Database.URL, "hidden", hidden, "error", fmt.Errorf("open %v", c))
	}
	shown := []string{log.String(), errors.Join(fmt.Errorf("%s", c.Database.URL)).Error()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p", "%!"} {
		shown = append(shown, fmt.Sprintf(verb, c), fmt.Sprintf(verb, &c), fmt.Sprintf(verb, c.Database.URL),
			fmt.Sprintf(verb, &c.Database.URL), fmt.Sprintf(verb, hidden), fmt.Sprintf(verb, pointed), fmt.Sprintf(verb, []URL{c.Database.URL}))
	}
	marshalled, err := json.Marshal(map[URL]any{c.Database.URL: c})
	if err != nil {
		t.Fatal(err)
	}
	shown = append(shown, string(marshalled))
	for _, output := range shown {
		if strings.Contains(output, "s3cret") || strings.Contains(output, fmt.Sprintf("%x", "s3cret")) ||
			strings.Contains(output, fmt.Sprintf("%X", "s3cret")) {
			t.Errorf("the password is shown: %s", output)
		}
	}
}

func TestAURLIsShownWithoutItsPassword(t *testing.T) {
	u := NewURL("postgres://app:s3cret@db/orders")
	const want = "postgres://app:***@db/orders"
	diff(t, want, fmt.Sprint(u))
	diff(t, want, fmt.Sprintf("%#v", u))
	marshalled, err := json.Marshal(u)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, `"`+want+`"`, string(marshalled))
}

func TestEqualURLsAreEqual(t *testing.T) {
	if NewURL("host=a") != NewURL("host="+"a") || NewURL("") != (URL{}) || NewURL("host=a") == NewURL("host=b") {
		t.Error("URLs do not compare by their string")
	}
	diff(t, "", URL{}.String()+URL{}.Reveal())
}
