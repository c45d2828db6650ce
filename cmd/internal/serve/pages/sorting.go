package pages

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	// mostSorted is how many rows a list is sorted by a column at most. A longer list has the order in which its query
	// pages.
	mostSorted = 200
	ascending  = "ascending"
	descending = "descending"
)

// sorting is the order of the table of a page, as its address gives it.
type sorting struct {
	path  string
	query url.Values // the rest of the address, without the place in the list
	by    string     // a column; empty: the order of the list itself
	desc  bool
}

func sortingOf(r *http.Request) sorting {
	q := r.URL.Query()
	s := sorting{path: r.URL.Path, query: q, by: q.Get("sort"), desc: q.Get("desc") != ""}
	for _, name := range []string{"sort", "desc", "after", "dead", "acted", "all"} {
		q.Del(name)
	}
	return s
}

// limit returns how many rows a page reads: more to sort them than to list them.
func (s sorting) limit() int {
	if s.by != "" {
		return mostSorted
	}
	return listed
}

// link returns the address of the page in the order of a column.
func (s sorting) link(column string, desc bool) string {
	pairs := []any{}
	for name, values := range s.query {
		pairs = append(pairs, name, values[0])
	}
	pairs = append(pairs, "sort", column)
	if desc {
		pairs = append(pairs, "desc", 1)
	}
	return link(s.path, pairs...)
}

// head is the header of a column.
type head struct {
	Text, Title string
	Number      bool   // its cells are figures, at the right
	Link        string // sorts the table by it; empty: it cannot be sorted so
	Sorted      string // ascending or descending; empty: the table is not sorted by it
}

// field is a column of a table of T.
type field[T any] struct {
	name, text, title string
	number            bool // its cells are figures: the highest come first
	// compare orders the table by the column. Nil: it cannot.
	compare func(a, b T) int
}

// heads returns the headers of a table. If it is in many parts, it has one order, and the headers are no links.
func heads[T any](s sorting, fields []field[T], parts bool) (list []head) {
	for _, f := range fields {
		h := head{Text: f.text, Title: f.title, Number: f.number}
		if f.compare != nil && !parts {
			desc := f.number
			if f.name == s.by {
				desc, h.Sorted = !s.desc, ascending
			}
			if f.name == s.by && s.desc {
				h.Sorted = descending
			}
			h.Link = s.link(f.name, desc)
		}
		list = append(list, h)
	}
	return list
}

// orderedBy returns the column of the order, or nil without one. It returns an error if the table has no such column.
func orderedBy[T any](s sorting, fields []field[T]) (*field[T], error) {
	if s.by == "" {
		return nil, nil
	}
	var names []string
	for i, f := range fields {
		switch {
		case f.compare == nil:
		case f.name == s.by:
			return &fields[i], nil
		default:
			names = append(names, f.name)
		}
	}
	return nil, badAddress("sort: must be one of " + strings.Join(names, ", ") + ".")
}

// arrange returns a list in the order of a column; nil: in its own.
func arrange[T any](s sorting, by *field[T], list []T) []T {
	if by == nil {
		return list
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b T) int {
		if s.desc {
			a, b = b, a
		}
		return by.compare(a, b)
	})
	return list
}

// by compares by a value of rows.
func by[T any, V cmp.Ordered](value func(row T) V) func(a, b T) int {
	return func(a, b T) int { return cmp.Compare(value(a), value(b)) }
}

// byTime compares by an instant of rows. Nil is the earliest.
func byTime[T any](at func(row T) *time.Time) func(a, b T) int {
	return by(func(row T) int64 {
		if t := at(row); t != nil && !t.IsZero() {
			return t.UnixMicro()
		}
		return 0
	})
}

// byEntity compares by the name of an entity, and then by its key. Keys that are numbers come first, by their value.
func byEntity[T any](of func(row T) (name, key string)) func(a, b T) int {
	return func(a, b T) int {
		name, key := of(a)
		otherName, other := of(b)
		return cmp.Or(cmp.Compare(name, otherName), compareKeys(key, other))
	}
}

func compareKeys(a, b string) int {
	notDigit := func(r rune) bool { return r < '0' || r > '9' }
	x, y := strings.ContainsFunc(a, notDigit), strings.ContainsFunc(b, notDigit)
	if x || y {
		return cmp.Or(cmp.Compare(one(x), one(y)), cmp.Compare(a, b))
	}
	m, n := strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(m), len(n)), cmp.Compare(m, n), cmp.Compare(a, b))
}

// listing is the head of a table, and a caption that says its order.
type listing struct {
	Heads   []head
	Caption string
}

// tooLong is why a list is not in the order that its address gives.
const tooLong = " The list is longer than a page that can be sorted. Show fewer rows to sort them."

// arrangePage arranges a page of a list. Only a list that is whole on one page can be sorted, because the database goes
// from page to page in one order, which the caption says. first is false behind the first page; more pages may follow.
func arrangePage[T any](
	s sorting, fields []field[T], rows []T, first, more bool, order string,
) ([]T, listing, error) {
	by, err := orderedBy(s, fields)
	if err != nil {
		return nil, listing{}, err
	}
	if first && (by == nil || !more) {
		l := listing{Heads: heads(s, fields, false)}
		if by == nil {
			l.Caption = order
		}
		return arrange(s, by, rows), l, nil
	}
	if s.by != "" {
		order += tooLong
	}
	return rows, listing{heads(s, fields, true), order}, nil
}
