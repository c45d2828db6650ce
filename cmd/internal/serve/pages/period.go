package pages

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/internal/spoken"
)

// period is the range of time of a chart, as the address of its page gives it: range is one of periods, and from and to
// name another one.
type period struct {
	board.Range
	name  string // of periods; empty: from and to
	path  string
	query url.Values // the rest of the address
}

// periods are the ranges to choose from, by their name in addresses.
var periods = []struct {
	name string
	last time.Duration
	said string
}{
	{"6h", 6 * time.Hour, "6 hours"},
	{"24h", day, "24 hours"},
	{"7d", 7 * day, "7 days"},
	{"30d", 30 * day, "30 days"},
}

// usual is the range of a page whose address names none.
const usual = "24h"

// periodOf returns the range that an address gives.
func periodOf(r *http.Request) (p period, err error) {
	q := r.URL.Query()
	p = period{path: r.URL.Path, query: q, name: q.Get("range")}
	from, to := q.Get("from"), q.Get("to")
	for _, name := range []string{"range", "from", "to", "acted"} {
		q.Del(name)
	}
	if p.name == "" && from == "" && to == "" {
		p.name = usual
	}
	if p.name != "" {
		for _, one := range periods {
			if one.name == p.name {
				p.Last = one.last
				return p, nil
			}
		}
		return p, badAddress("range: must be one of " + strings.Join(periodNames(), ", ") + ".")
	}
	if p.From, _, err = spoken.ParseInstant(from); err == nil {
		p.To, _, err = spoken.ParseInstant(to)
	}
	if err != nil {
		return p, badAddress("from and to: both must be instants, such as 2026-03-01T13:15:00Z.")
	}
	return p, nil
}

func periodNames() (names []string) {
	for _, p := range periods {
		names = append(names, p.name)
	}
	return names
}

// link returns the address of the page with another range.
func (p period) link(pairs ...any) string {
	for name, values := range p.query {
		pairs = append(pairs, name, values[0])
	}
	return link(p.path, pairs...)
}

// between returns the address of the page with the range [from, to).
func (p period) between(from, to time.Time) string { return p.link("from", from, "to", to) }

// choice is a range to choose.
type choice struct {
	Text, Link string
	Current    bool
}

// choices returns the ranges to choose, beside [from, to). before is true if there may be something earlier.
func (p period) choices(from, to, now time.Time, before bool) (list []choice) {
	length := to.Sub(from)
	if before {
		list = append(list, choice{Text: "earlier", Link: p.between(from.Add(-length), from)})
	}
	for _, one := range periods {
		list = append(list, choice{one.name, p.link("range", one.name), one.name == p.name})
	}
	if to.Before(now) {
		list = append(list, choice{Text: "later", Link: p.between(to, to.Add(length))})
	}
	return list
}
