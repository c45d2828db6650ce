package jobs

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lib/pq"
)

// columns turns requests into the parameters of statement enqueue_many: one array a column, without nulls. They are
// encoded here, since the driver's general encoder takes as long for an array of times as the server takes to write the
// rows.
func columns(list []Request, on OnConflict, clock any) []any {
	n := len(list)
	var execs, names, keys, times, payloads, items, groups array
	for _, column := range []*array{&execs, &names, &keys, &times, &payloads, &items, &groups} {
		column.text.Grow(16 * n)
	}
	nameless := unused(list)
	for _, r := range list {
		execs.add(r.JobExec)
		names.add(r.EntityName)
		keys.add(r.EntityKey)
		times.addTime(r.checkAt())
		payloads.add(string(r.Payload))
		item := r.ItemKey
		if r.Anonymous {
			item = nameless
		}
		items.add(item)
		groups.add(r.GroupKey)
	}
	policy, maxMicros := on.args()
	return []any{
		execs.literal(), names.literal(), keys.literal(), times.literal(), payloads.literal(), items.literal(),
		groups.literal(), policy, maxMicros, clock,
		spans(list, func(r Request) time.Duration { return r.Within }), nameless,
		spans(list, func(r Request) time.Duration { return r.UnlessEndedWithin }),
	}
}

// spans is a column of durations, in seconds. Nil: all of them are 0.
func spans(list []Request, of func(r Request) time.Duration) any {
	if !slices.ContainsFunc(list, func(r Request) bool { return of(r) != 0 }) {
		return nil
	}
	var column array
	for _, r := range list {
		column.add(strconv.FormatInt(int64(of(r)/time.Second), 10))
	}
	return column.literal()
}

// unused returns an item key that no request has.
func unused(list []Request) string {
	key := "anonymous"
	for slices.ContainsFunc(list, func(r Request) bool { return r.ItemKey == key }) {
		key += "'"
	}
	return key
}

// array builds the literal of a PostgreSQL array.
type array struct {
	text strings.Builder
}

var arrayEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// add appends a string.
func (a *array) add(s string) {
	a.text.WriteString(`,"`)
	_, _ = arrayEscapes.WriteString(&a.text, s) // a Builder never fails
	a.text.WriteByte('"')
}

func (a *array) addTime(t time.Time) {
	a.text.WriteString(`,"`)
	a.text.Write(pq.FormatTimestamp(t))
	a.text.WriteByte('"')
}

func (a *array) literal() string {
	if a.text.Len() == 0 {
		return "{}"
	}
	return "{" + a.text.String()[1:] + "}"
}
