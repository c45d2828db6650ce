// Package uri says what a URI reference is, and reads URLs with several hosts and their parameters.
package uri

import (
	"net/url"
	"strings"
)

// IsReference tells whether a text is a URI reference as in RFC 3986, such as /orders or
// https://example.com/orders. An empty text is none here.
func IsReference(text string) bool {
	_, err := url.Parse(text)
	return err == nil && text != "" && !strings.ContainsFunc(text, mustBeEncoded)
}

// mustBeEncoded tells whether RFC 3986 wants a character percent-encoded.
func mustBeEncoded(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune("\"<>\\^`{|}", r)
}
