package rulestore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/spoken"
)

// UnknownNames counts the names that the data of rows hold and that are not known. The zero value has counted none.
type UnknownNames struct {
	rows  int64
	names map[nameOf]*counted
}

// nameOf is a name that is not known, and its field. One that is not there is null.
type nameOf struct {
	field, name string
	there       bool
}

// counted is a name that is not known, with the number of rows that have it.
type counted struct {
	rows  int64
	first *rule.UnknownName // of the first of these rows
}

const (
	mostNames    = 5    // of Most
	mostCounted  = 1000 // names that are told apart
	longestKnown = 100  // bytes of a name by which it is told apart
)

// Add counts the names of a row, which may have none.
func (n *UnknownNames) Add(list []*rule.UnknownName) {
	if len(list) == 0 {
		return
	}
	n.rows++
	if n.names == nil {
		n.names = map[nameOf]*counted{}
	}
	for _, u := range list {
		name := nameOf{field: u.Field, there: u.Name != nil}
		if u.Name != nil {
			name.name = strings.ToValidUTF8((*u.Name)[:min(len(*u.Name), longestKnown)], "")
		}
		if n.names[name] == nil {
			if len(n.names) == mostCounted {
				continue
			}
			n.names[name] = &counted{first: u}
		}
		n.names[name].rows++
	}
}

// Rows returns how many rows have such a name.
func (n *UnknownNames) Rows() int64 { return n.rows }

// Most returns up to five names, those of the most rows first.
func (n *UnknownNames) Most() []NameCount {
	list := []NameCount{}
	for name, of := range n.names {
		count := NameCount{Field: name.field, Rows: of.rows}
		if name.there {
			count.Name = &name.name
		}
		if near := of.first.Near(); len(near) > 0 {
			count.Meant = spoken.DidYouMean(near)
		}
		list = append(list, count)
	}
	slices.SortFunc(list, func(a, b NameCount) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.String(), b.String()))
	})
	return list[:min(len(list), mostNames)]
}

// NameCount is a name that the data of rows hold and that is not known.
type NameCount struct {
	// Field is timezone, or that of the calendar of a step, such as steps[1].calendar.
	Field string  `json:"field"`
	Name  *string `json:"name"` // null: the rows name none
	Rows  int64   `json:"rows"` // with this name
	// Meant asks whether calendars of the file were meant. Empty: none is similar.
	Meant string `json:"-"`
}

// String returns the name behind its field.
func (n NameCount) String() string {
	if n.Name == nil {
		return n.Field + " null"
	}
	return fmt.Sprintf("%s %q%s", n.Field, *n.Name, n.Meant)
}
