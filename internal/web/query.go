package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/spoken"
)

// Parameters are the parameters of a request's query.
type Parameters struct{ url.Values }

// checkQuery checks the parameters of a request. Each must be known and occur once.
func checkQuery(r *http.Request, known []string) error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return NewProblem(http.StatusBadRequest, "the query cannot be read")
	}
	for name, values := range q {
		switch {
		case len(known) == 0:
			return NewProblem(http.StatusBadRequest, name+": this path has no parameters")
		case !slices.Contains(known, name) && spoken.Meant(name, known) != "":
			return NewProblem(http.StatusBadRequest, name+": there is no such parameter"+spoken.Meant(name, known))
		case len(values) > 1 || !slices.Contains(known, name):
			return NewProblem(http.StatusBadRequest,
				fmt.Sprintf("%s: want the parameters %s, each once", name, strings.Join(known, ", ")))
		}
	}
	return nil
}

// Given returns the parameters of a request whose query Handler has checked.
func Given(r *http.Request) Parameters { return Parameters{r.URL.Query()} }

// Number returns a parameter, which must lie between least and most. Returns fallback if it is
// missing.
func (q Parameters) Number(name string, fallback, least, most int64) (int64, error) {
	text := q.Get(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, NewProblem(http.StatusBadRequest, fmt.Sprintf("%s: must be a number from %d to %d", name, least, most))
	}
	return n, nil
}

// Instant returns a parameter in UTC. Returns the zero time if it is missing and not required.
func (q Parameters) Instant(name string, required bool) (time.Time, error) {
	if q.Get(name) == "" && !required {
		return time.Time{}, nil
	}
	return Instant(name, q.Get(name))
}

// Instant reads an instant of RFC 3339, in UTC. name says what it is, for the problem.
func Instant(name, text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, NewProblem(http.StatusBadRequest, name+": want an instant such as 2006-01-02T15:04:05Z")
	}
	return at.UTC(), nil
}
