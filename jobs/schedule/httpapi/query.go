package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prescient-go/prescient/jobs/schedule"
)

// parameters are those of a request's query.
type parameters struct{ url.Values }

// query returns the parameters of a request, each of which must be known, and given once.
func query(r *http.Request, known ...string) (parameters, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return parameters{}, problem(http.StatusBadRequest, "the query cannot be read")
	}
	for name, values := range q {
		if len(values) > 1 || !slices.Contains(known, name) {
			return parameters{}, problem(http.StatusBadRequest, fmt.Sprintf("%s: want the parameters %s, each once", name, strings.Join(known, ", ")))
		}
	}
	return parameters{q}, nil
}

func (q parameters) limit() (int, error) {
	text := q.Get("limit")
	if text == "" {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxLimit {
		return 0, problem(http.StatusBadRequest, fmt.Sprintf("limit: must be a number from 1 to %d", maxLimit))
	}
	return n, nil
}

func (q parameters) instant(name string, required bool) (time.Time, error) {
	if q.Get(name) == "" && !required {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, q.Get(name))
	if err != nil {
		return at, problem(http.StatusBadRequest, name+": want an instant such as 2006-01-02T15:04:05Z")
	}
	return at.UTC(), nil
}

// ifMatch returns the version that a request is for.
func ifMatch(r *http.Request) (int, error) {
	text := r.Header.Get("If-Match")
	if text == "" || text == "*" {
		return schedule.AnyVersion, nil
	}
	inner, ok := strings.CutPrefix(text, `"`)
	inner, ok2 := strings.CutSuffix(inner, `"`)
	version, err := strconv.ParseUint(inner, 10, 31)
	if !ok || !ok2 || err != nil || version == 0 {
		return 0, problem(http.StatusPreconditionFailed, `If-Match: want the ETag of the schedule, such as "3"`)
	}
	return int(version), nil
}

func setVersion(w http.ResponseWriter, s schedule.Schedule) {
	w.Header().Set("ETag", strconv.Quote(strconv.Itoa(s.Version)))
}
