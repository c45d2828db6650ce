package config

// Endpoint is a URL of any scheme that may hold a password, or a token in its place, such as
// https://app:password@example.com/hook or outbox:. The zero value is the empty string. Equal
// strings compare equal with ==.
//
// Printing, logging and marshalling it, as part of a larger value too, mask the password, and query
// parameters whose name or value looks like a secret. They mask the whole path and query, unless the
// scheme is that of a file, Kafka or NATS: a webhook may accept every sender that knows them. Only
// Reveal returns the URL.
type Endpoint struct{ Secret }

// NewEndpoint returns text as an Endpoint. It is not validated; Load does that.
func NewEndpoint(text string) Endpoint { return Endpoint{NewSecret(text)} }

// String returns the URL with its secrets masked. A URL that cannot be understood is masked
// entirely.
func (e Endpoint) String() string {
	shown, _, ok := redactEndpoint(e.Reveal())
	if !ok {
		return Mask
	}
	return shown
}

// GoString is String, for %#v.
func (e Endpoint) GoString() string { return e.String() }

// MarshalText is String, for encoding/json and log/slog.
func (e Endpoint) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// hasSecret reports whether the URL holds a password or another secret, or cannot be understood.
func (e Endpoint) hasSecret() bool {
	_, secret, ok := redactEndpoint(e.Reveal())
	return secret || !ok
}
