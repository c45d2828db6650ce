package sqltext

import (
	"regexp"

	"github.com/lib/pq"
)

// IsPlainName reports whether a name means itself in SQL without double quotes.
func IsPlainName(name string) bool { return plainName.MatchString(name) }

var plainName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// QuoteName returns a name as SQL, with double quotes if it needs them.
func QuoteName(name string) string {
	if IsPlainName(name) {
		return name
	}
	return pq.QuoteIdentifier(name)
}
