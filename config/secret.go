package config

import "unique"

// Secret is a text that printing never shows: however it is printed, logged or marshalled, as part of a larger value
// too, it shows [Mask], or nothing where it is empty; only [Secret.Reveal] gives it away. The zero value is the empty
// string. Equal secrets compare equal with ==.
type Secret struct {
	// A handle prints as an address even where fmt cannot call String, in an unexported field of a larger struct.
	handle unique.Handle[string]
}

// NewSecret returns text as a Secret. It is not validated; Load does that.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{unique.Make(text)}
}

// Reveal returns the text as it was given: for using it, never for a message.
func (s Secret) Reveal() string {
	if s == (Secret{}) {
		return ""
	}
	return s.handle.Value()
}

// String returns [Mask], or nothing for the empty string.
func (s Secret) String() string {
	if s == (Secret{}) {
		return ""
	}
	return Mask
}

// GoString is String, for %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText is String, for encoding/json and log/slog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// hasSecret reports whether there is something to hide.
func (s Secret) hasSecret() bool { return s != Secret{} }
