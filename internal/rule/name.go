package rule

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/prescient-go/prescient/internal/sqltext"
)

var (
	part      = regexp.MustCompile(`^(?:"((?:[^"\x00]|"")+)"|([\pL_][\pL\pN_$]*))(\.|$)`)
	errorName = `%q: want names as SQL has them, such as shop.orders, shop."Orders" or placed_at`
)

// ParseName splits a name of SQL, such as shop.orders or shop."Order Items". Parts without quotes are
// folded to lower case, as PostgreSQL does.
func ParseName(text string) (parts []string, err error) {
	for rest := text; ; {
		m := part.FindStringSubmatch(rest)
		switch {
		case m == nil:
			return nil, fmt.Errorf(errorName, text)
		case m[2] != "":
			parts = append(parts, strings.ToLower(m[2]))
		default:
			parts = append(parts, strings.ReplaceAll(m[1], `""`, `"`))
		}
		rest = rest[len(m[0]):]
		if m[3] == "" {
			return parts, nil
		}
	}
}

// quoted returns the name of a column as SQL, with double quotes if it needs them. A text that is no name stays.
func quoted(name string) string {
	names, err := ParseName(name)
	if err != nil || len(names) != 1 {
		return name
	}
	return sqltext.QuoteName(names[0])
}
