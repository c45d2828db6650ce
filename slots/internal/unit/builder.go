package unit

import (
	"strings"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
)

// GroupKey identifies a group by what group_read needs to find its rows.
type GroupKey struct {
	Family, Key, EntityName, EntityKey string

	ID int64 // of a row that is a group of its own
}

func groupKeyOf(d *jobs.Definition, row *jobs.FutureJob) GroupKey {
	switch {
	case row.GroupKey != "":
		name, key, _ := strings.Cut(row.GroupKey, "\x1f") // the form of an entity's group
		return GroupKey{d.Group, row.GroupKey, name, key, 0}
	case row.Anonymous:
		return GroupKey{Family: d.Group, ID: row.ID}
	}
	return GroupKey{d.Group, groupOf(row), row.EntityName, row.EntityKey, 0}
}

// groupOf returns the group_key of a row, or else its entity: the rows of a group have it in common.
func groupOf(row *jobs.FutureJob) string {
	if row.GroupKey != "" {
		return row.GroupKey
	}
	return row.EntityName + "\x1f" + row.EntityKey
}

// GroupName returns the name of the group, which its rows have in common.
func (u *Unit) GroupName() string { return groupOf(&u.one[0]) }

// Builder puts the rows of a page into units, one a call.
type Builder struct {
	Units []*Unit

	rows    []jobs.FutureJob
	batches map[batchKey]batch
	groups  map[GroupKey]*Unit
}

// batchKey identifies a batch.
type batchKey struct {
	number int64
	limit  string // the key of it
}

// batch is a unit to which rows are added one by one.
type batch struct {
	*Unit
	first int // where its first row is among those that were read
}

// NewBuilder returns a Builder for the rows of a page.
func NewBuilder(rows []jobs.FutureJob) *Builder {
	return &Builder{rows: rows, batches: map[batchKey]batch{}, groups: map[GroupKey]*Unit{}}
}

// Settle adds a row whose verdict needs no call.
func (b *Builder) Settle(i int, d *jobs.Definition, number int64, v *guard.Verdict) {
	b.open(i, d, number).Verdict = v
}

// Add adds a row to call the function with. Rows of a batch have the same limit key, which limitKey returns.
func (b *Builder) Add(i int, d *jobs.Definition, number int64, limitKey func(row jobs.FutureJob) string) {
	switch {
	case d.Grouped():
		b.addToGroup(i, d, number)
	case d.Batched():
		b.addToBatch(i, d, batchKey{number, limitKey(b.rows[i])})
	default:
		b.open(i, d, number)
	}
}

// open adds a unit of one row.
func (b *Builder) open(i int, d *jobs.Definition, number int64) *Unit {
	u := &Unit{Def: d, Number: number}
	u.Rows = append(u.one[:0], b.rows[i])
	b.Units = append(b.Units, u)
	return u
}

func (b *Builder) addToGroup(i int, d *jobs.Definition, number int64) {
	key := groupKeyOf(d, &b.rows[i])
	u := b.groups[key]
	if u == nil {
		u = b.open(i, d, number)
		u.Group, b.groups[key] = &Group{Key: key}, u
	}
	u.Group.Members = append(u.Group.Members, b.rows[i].ID)
}

// addToBatch does not copy rows while they are neighbours in the page.
func (b *Builder) addToBatch(i int, d *jobs.Definition, key batchKey) {
	to, ok := b.batches[key]
	switch {
	case !ok || d.BatchSize > 0 && len(to.Rows) >= d.BatchSize:
		b.batches[key] = batch{b.open(i, d, key.number), i}
	case i == to.first+len(to.Rows):
		to.Rows = b.rows[to.first : i+1 : i+1]
	default:
		to.Rows = append(to.Rows, b.rows[i])
	}
}
