package uri

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/prescient-go/prescient/internal/spoken"
)

// Query returns the parameters of a URL. Each must have one of the names, occur once, and have a value.
func Query(u *url.URL, names ...string) (map[string]string, error) {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("the parameters cannot be read; write % as %25 and ; as %3B")
	}
	query := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("unknown parameter %q; there %s %s", name, spoken.Noun(len(names), "is", "are"),
				strings.Join(names, " and "))
		}
		if query[name] = values.Get(name); len(values[name]) > 1 || query[name] == "" {
			return nil, fmt.Errorf("give parameter %s once, with a value", name)
		}
	}
	return query, nil
}
