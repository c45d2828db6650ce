package config

// Embedded is the database.url that stands for the private PostgreSQL, which prescient runs itself.
const Embedded = "embedded:"

// URL is a connection string that may hold a password: a postgres:// URL or key=value pairs; or [Embedded].
// However it is printed, logged or marshalled, as part of a larger value too, it shows what [Redact] leaves;
// only Reveal gives the password away. The zero value is the empty string. Equal strings compare equal with ==.
type URL struct{ Secret }

// NewURL returns text as a URL. It is not validated; Load does that.
func NewURL(text string) URL { return URL{NewSecret(text)} }

// String returns the connection string with its secrets masked, see [Redact].
func (u URL) String() string { return Redact(u.Reveal()) }

// GoString is String, for %#v.
func (u URL) GoString() string { return u.String() }

// MarshalText is String, for encoding/json and log/slog.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// hasSecret reports whether the string holds a password or another secret, or cannot be understood.
func (u URL) hasSecret() bool {
	_, secret, ok := redact(u.Reveal())
	return secret || !ok
}
