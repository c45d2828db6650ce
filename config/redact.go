package config

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/prescient-go/prescient/internal/uri"
)

// Mask stands in for a secret in everything that [Redact] returns.
const Mask = "***"

const (
	space   = `\s\v\x{85}\p{Z}`
	escaped = `\\(?s:.)`
	gap     = `[` + space + `]*`
	quoted  = `'(?:[^'\\]|` + escaped + `)*'`
	bare    = `(?:[^'\\` + space + `]|` + escaped + `)(?:[^\\` + space + `]|` + escaped + `)*`
)

var (
	// Parameters that hold a secret, by name; and values that hold one whatever their name says: a
	// connection string within another, a list in the style of another driver, an inline key.
	secretName  = regexp.MustCompile(`(?i)passw|pwd|secret|token|scram`)
	secretValue = regexp.MustCompile(`(?i)(passw\w*|pwd)\s*=|://|-----BEGIN`)

	paramName = regexp.MustCompile(`^[A-Za-z_][\w.]*$`)

	// One key=value pair and the space around it, by the grammar of libpq and lib/pq.
	pair = regexp.MustCompile(`^` + gap + `([A-Za-z_][\w.]*)` + gap + `=` + gap + `(` + quoted + `|` + bare + `|)` + gap)
)

// Redact returns a connection string, a postgres:// URL or key=value pairs, with every password and
// other secret replaced by [Mask]. The rest may be in another order. It masks any other string
// entirely, and one whose password may contain a character that is not percent-encoded. Empty and
// [Embedded] stay.
func Redact(text string) string {
	shown, _, ok := redact(text)
	if !ok {
		return Mask
	}
	return shown
}

// redact returns text without its secrets, and whether there were any. ok is false if text cannot
// be understood.
func redact(text string) (shown string, secret, ok bool) {
	switch {
	case text == "" || text == Embedded:
		return text, false, true
	case strings.HasPrefix(text, "postgres://"), strings.HasPrefix(text, "postgresql://"):
		return redactURL(text)
	default:
		return redactPairs(text)
	}
}

func redactURL(text string) (shown string, secret, ok bool) {
	u, err := uri.Parse(text)
	if err != nil {
		return "", false, false
	}
	return redactParsed(u)
}

// redactEndpoint is redact for a URL of any scheme. A user without a password may be a token. It
// hides the path and the query unless the scheme is known to have none that is secret: that of a
// webhook may be a capability. They do not count as a password that a flag must not have.
func redactEndpoint(text string) (shown string, secret, ok bool) {
	u, err := uri.Parse(text)
	if err != nil || u.Scheme == "" {
		return "", false, text == ""
	}
	if _, has := u.User.Password(); !has && u.User.Username() != "" {
		u.User, secret = url.User(Mask), true
	}
	shown, more, ok := redactParsed(u)
	if ok && !slices.Contains(openPaths, u.Scheme) && (u.Host != "" || u.Opaque == "") &&
		(strings.Trim(u.EscapedPath(), "/") != "" || u.RawQuery != "") {
		u.Path, u.RawPath, u.RawQuery = "/"+Mask, "", ""
		shown = strings.ReplaceAll(u.String(), url.QueryEscape(Mask), Mask)
	}
	return shown, secret || more, ok
}

// openPaths are the schemes whose paths are names of files, topics and subjects.
var openPaths = []string{"file", "kafka", "nats", "outbox", "stdout", "tls"}

func redactParsed(u *url.URL) (shown string, secret, ok bool) {
	if !unambiguous(u) {
		return "", false, false
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", false, false
	}
	if password, _ := u.User.Password(); password != "" {
		u.User, secret = url.UserPassword(u.User.Username(), Mask), true
	}
	for name, values := range query {
		if !paramName.MatchString(name) {
			return "", false, false
		}
		if holdsSecret(name, strings.Join(values, "")) {
			query[name], secret = []string{Mask}, true
		}
	}
	if u.Host == "" && strings.HasPrefix(u.Scheme, "postgres") {
		u.Path = cmp.Or(u.Path, "/") // without either, String would drop the // too
	}
	u.RawQuery = query.Encode()
	return strings.ReplaceAll(u.String(), url.QueryEscape(Mask), Mask), secret, true
}

// unambiguous reports that no part of u can be a password, or the rest of one that an unescaped # /
// ? or @ has cut in two.
func unambiguous(u *url.URL) bool {
	if _, ok := uri.Hosts(u, ""); !ok && strings.Contains(u.Host, ",") {
		return false
	}
	return u.Fragment == "" && !strings.Contains(u.Opaque+u.EscapedPath()+u.RawQuery, "@") &&
		!strings.Contains(u.User.Username(), ":") &&
		!slices.ContainsFunc([]string{u.User.Username(), u.Host, u.Path, u.Opaque}, secretValue.MatchString)
}

func redactPairs(text string) (shown string, secret, ok bool) {
	var pairs []string
	for text != "" {
		found := pair.FindStringSubmatch(text)
		if found == nil {
			return "", false, false
		}
		name, value := found[1], found[2]
		if holdsSecret(name, strings.Trim(value, "'")) {
			value, secret = Mask, true
		}
		pairs = append(pairs, name+"="+value)
		text = text[len(found[0]):]
	}
	return strings.Join(pairs, " "), secret, true
}

func holdsSecret(name, value string) bool {
	return value != "" && secretName.MatchString(name) || secretValue.MatchString(value)
}
