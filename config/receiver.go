package config

import (
	"fmt"
	"net/url"

	"github.com/prescient-go/prescient/internal/receiver"
)

// Receiver is where messages to people go, such as Slack or a mail server.
type Receiver struct {
	// Name is how notify and Alerts.Receiver name it: 1 to 63 lower-case letters, digits, _ and -.
	Name string `mapstructure:"name"`

	// URL is the URL that the service gives, with the name of the service in place of https, as docs/people.md
	// lists them. It must be set.
	URL Address `mapstructure:"url"`

	// PerMinute is how many messages it gets in a minute, at least 1. Messages above that are told in one.
	// Defaults to 30.
	PerMinute int `mapstructure:"per_minute"`
}

// Address is the URL of a receiver. Each part of it but the service and the host may be a secret. So printing, logging
// and marshalling it, as part of a larger value too, masks these parts. Only Reveal returns the URL.
type Address struct{ Secret }

// NewAddress returns text as an Address. It is not validated; Load does that.
func NewAddress(text string) Address { return Address{NewSecret(text)} }

// String returns the URL with its secrets masked.
func (a Address) String() string {
	u, err := url.Parse(a.Reveal())
	switch {
	case a == Address{}:
		return ""
	case err != nil || u.Scheme == "" || u.Opaque != "":
		return Mask
	case u.Scheme == "file" || u.Scheme == "stdout":
		return u.String()
	}
	return u.Scheme + "://" + u.Host + "/" + Mask
}

// GoString is String, for %#v.
func (a Address) GoString() string { return a.String() }

// MarshalText is String, for encoding/json and log/slog.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// defaultReceiver has the defaults of the settings of a Receiver.
var defaultReceiver = Receiver{PerMinute: 30}

// receiverRules has one entry for every setting of a Receiver.
var receiverRules = map[string]rule[Receiver]{
	"name": {
		"1 to 63 lower-case letters, digits, _ and -",
		func(r Receiver) bool { return storeName.MatchString(r.Name) && len(r.Name) <= maxName },
	},
	"url": {
		"the URL that the service gives, with the name of the service in place of https, such as " +
			"slack://hooks.slack.com/services/T0/B0/secret",
		func(r Receiver) bool {
			u, err := url.Parse(r.URL.Reveal())
			return err == nil && u.Scheme != ""
		},
	},
	"per_minute": {"a whole number of at least 1, such as 30", func(r Receiver) bool { return r.PerMinute >= 1 }},
}

// wrongAddresses returns an error for each receiver whose address its service cannot have.
func (s sources) wrongAddresses(c *Config) (problems []error) {
	for i, r := range c.Receivers {
		if !receiverRules["url"].holds(r) {
			continue // told by the rule
		}
		if err := receiver.Check(r.URL.Reveal()); err != nil {
			problems = append(problems, fmt.Errorf("set url of %s from file %s: got %s: %w",
				entryRef{"receivers", i + 1, r.Name}, s.file, r.URL, err))
		}
	}
	return problems
}
