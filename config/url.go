package config

import "unique"

// URL is a connection string that may hold a password: a postgres:// URL or key=value pairs.
// However it is printed, logged or marshalled, as part of a larger value too, it shows what [Redact] leaves;
// only [URL.Reveal] gives the password away. The zero value is the empty string. Equal strings compare equal with ==.
type URL struct {
	// A handle prints as an address even where fmt cannot call String, in an unexported field of a larger struct.
	handle unique.Handle[string]
}

// NewURL returns text as a URL. It is not validated; Load does that.
func NewURL(text string) URL {
	if text == "" {
		return URL{}
	}
	return URL{unique.Make(text)}
}

// Reveal returns the string as it was given, with its password: for connecting, never for a message.
// It is empty when the private PostgreSQL is meant.
func (u URL) Reveal() string {
	if u == (URL{}) {
		return ""
	}
	return u.handle.Value()
}

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
