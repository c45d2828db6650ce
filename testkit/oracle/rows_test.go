package oracle_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Values of columns. A time.Time is a timestamptz, and infinite if it is far or its opposite.
type (
	wall     time.Time // a timestamp, in UTC
	date     time.Time // in UTC
	interval length
	document time.Time // a jsonb whose field "at" has an instant
)

var (
	far   = time.Date(9000, time.January, 1, 0, 0, 0, 0, time.UTC)
	late  = time.Date(2200, time.January, 1, 0, 0, 0, 0, time.UTC) // it stands for never, too
	never = time.Date(-4000, time.January, 1, 0, 0, 0, 0, time.UTC)
)

// literal returns a value as SQL.
func literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case time.Time:
		switch {
		case v.Equal(far):
			return "'infinity'"
		case v.Equal(never):
			return "'-infinity'"
		}
		return v.UTC().Format("'2006-01-02 15:04:05.999999Z'")
	case wall:
		return time.Time(v).Format("'2006-01-02 15:04:05.999999'")
	case date:
		return time.Time(v).Format("'2006-01-02'")
	case interval:
		return fmt.Sprintf("'%d months %d days %d microseconds'", v.months, v.days, v.time.Microseconds())
	case document:
		return fmt.Sprintf(`'{"at": %q}'`, time.Time(v).UTC().Format(time.RFC3339Nano))
	case string:
		return "'" + v + "'"
	}
	return fmt.Sprint(v)
}

// row has the values of a row of shop.o, by column.
type row map[string]any

// with returns a row with other values.
func (r row) with(values row) row {
	changed := maps.Clone(r)
	maps.Copy(changed, values)
	return changed
}

// insert returns the statement that inserts a row.
func (r row) insert() string {
	names, values := "", ""
	for _, name := range slices.Sorted(maps.Keys(r)) {
		names, values = names+", "+name, values+", "+literal(r[name])
	}
	return fmt.Sprintf("insert into shop.o (%s) values (%s)", names[2:], values[2:])
}

// channel is a row of shop.channel.
type channel struct {
	minutes any // or null
	live    bool
	region  string // a calendar
}

// tables are the rows that an expression may read.
type tables struct {
	rows     map[string]row // of shop.o, by key
	channels map[int]channel
	payments map[string][]time.Time // by the key of the row
	beats    map[string][]time.Time
}

// expression is an expression of a file, in SQL and as Go.
type expression struct {
	sql    string
	cols   []string // of the row, that it reads
	lookup bool     // whether it reads other tables

	instant func(t *tables, r row, zone *time.Location) (at time.Time, ok bool)
	// holds returns whether a condition is true. known is false if it is null.
	holds  func(t *tables, r row) (value, known bool)
	length func(t *tables, r row) length
	count  func(t *tables, r row) (n int, ok bool)
	name   func(t *tables, r row) string // of a calendar or a zone
}

// local reports whether an instant has no time zone.
func (e *expression) local() bool {
	return strings.Contains(e.sql, "local") || strings.Contains(e.sql, "due") || strings.Contains(e.sql, "closed_on")
}

func instantOf(v any, zone *time.Location) (time.Time, bool) {
	switch v := v.(type) {
	case time.Time:
		return v, true
	case wall:
		return instant(time.Time(v), zone), true
	case date:
		return instant(time.Time(v), zone), true
	case document:
		return time.Time(v), true
	}
	return time.Time{}, false
}

// column returns an expression that is a column with an instant.
func column(name string) *expression {
	return &expression{sql: name, cols: []string{name}, instant: func(_ *tables, r row, zone *time.Location) (time.Time, bool) {
		return instantOf(r[name], zone)
	}}
}

func infinite(at time.Time) bool { return at.Equal(far) || at.Equal(late) || at.Equal(never) }

func epoch(r row) (time.Time, bool) {
	ms, ok := r["ms"].(int)
	return time.UnixMilli(int64(ms)).UTC(), ok
}

func minutes(r row, column string) (time.Duration, bool) {
	n, ok := r[column].(int)
	return time.Duration(n) * time.Minute, ok
}

// sinces are the instants from which delays count.
var sinces = []*expression{
	column("created_at"), column("local_at"), column("due"),
	{
		sql: "to_timestamp(ms / 1000.0)", cols: []string{"ms"},
		instant: func(_ *tables, r row, _ *time.Location) (time.Time, bool) { return epoch(r) },
	},
	{
		sql: "(data->>'at')::timestamptz", cols: []string{"data"},
		instant: func(_ *tables, r row, zone *time.Location) (time.Time, bool) { return instantOf(r["data"], zone) },
	},
	{
		sql: "created_at + make_interval(mins => held)", cols: []string{"created_at", "held"},
		instant: func(_ *tables, r row, _ *time.Location) (time.Time, bool) {
			at, ok := r["created_at"].(time.Time)
			held, known := minutes(r, "held")
			if !infinite(at) {
				at = at.Add(held)
			}
			return at, ok && known
		},
	},
	{
		sql: "local_at + make_interval(mins => held)", cols: []string{"local_at", "held"},
		instant: func(_ *tables, r row, zone *time.Location) (time.Time, bool) {
			at, ok := r["local_at"].(wall)
			held, known := minutes(r, "held")
			if !ok || !known {
				return time.Time{}, false
			}
			return instant(time.Time(at).Add(held), zone), true
		},
	},
	{
		sql: "coalesce(local_at, o.due)", cols: []string{"local_at", "due"},
		instant: func(_ *tables, r row, zone *time.Location) (time.Time, bool) {
			if r["local_at"] != nil {
				return instantOf(r["local_at"], zone)
			}
			return instantOf(r["due"], zone)
		},
	},
	{
		sql: "due + held / 1440", cols: []string{"due", "held"}, // a date
		instant: func(_ *tables, r row, zone *time.Location) (time.Time, bool) {
			at, ok := r["due"].(date)
			n, known := r["held"].(int)
			if !ok || !known {
				return time.Time{}, false
			}
			return instant(time.Time(at).AddDate(0, 0, n/1440), zone), true
		},
	},
	{
		sql: "greatest(created_at, to_timestamp(ms / 1000.0))", cols: []string{"created_at", "ms"},
		instant: func(_ *tables, r row, _ *time.Location) (time.Time, bool) {
			at, ok := r["created_at"].(time.Time)
			other, known := epoch(r)
			if known && (!ok || other.After(at)) {
				return other, true
			}
			return at, ok
		},
	},
}

// changedAt is the column of a row, which no table has, with the instant at which its status changed.
const changedAt = "changed(status)"

// changed is the instant at which the status of a row changed.
var changed = &expression{
	sql: changedAt, lookup: true, cols: []string{"status"},
	instant: func(_ *tables, r row, _ *time.Location) (time.Time, bool) {
		at, ok := r[changedAt].(time.Time)
		return at, ok
	},
}

// beat is the last row of another table.
var beat = &expression{
	sql: "(select max(b.at) from shop.beat b where b.o_id = o.id)", lookup: true,
	instant: func(t *tables, r row, _ *time.Location) (last time.Time, ok bool) {
		for _, at := range t.beats[r["id"].(string)] {
			if !ok || at.After(last) {
				last, ok = at, true
			}
		}
		return last, ok
	},
}

func condition(sql string, holds func(r row) (bool, bool), cols ...string) *expression {
	return &expression{sql: sql, cols: cols, holds: func(_ *tables, r row) (bool, bool) { return holds(r) }}
}

func notOpen(r row) (bool, bool) { return r["status"] != "open", r["status"] != nil }
func isPaid(r row) (bool, bool)  { return r["paid"] == true, r["paid"] != nil }
func isZero(r row) (bool, bool)  { return r["amount"] == 0, r["amount"] != nil }

var (
	status  = condition("status <> 'open'", notOpen, "status")
	paid    = condition("paid", isPaid, "paid")
	zero    = condition("amount = 0", isZero, "amount")
	falsity = condition("false", func(row) (bool, bool) { return false, true })
	payment = &expression{
		sql: "exists (select from shop.payment p where p.o_id = o.id)", lookup: true, cols: []string{},
		holds: func(t *tables, r row) (bool, bool) { return len(t.payments[r["id"].(string)]) > 0, true },
	}
	paidAt = &expression{
		sql: "(select min(p.at) from shop.payment p where p.o_id = o.id)", lookup: true,
		instant: func(t *tables, r row, _ *time.Location) (first time.Time, ok bool) {
			for _, at := range t.payments[r["id"].(string)] {
				if !ok || at.Before(first) {
					first, ok = at, true
				}
			}
			return first, ok
		},
	}

	// dones are lists of done.
	dones = [][]*expression{
		{column("closed_at")},
		{column("closed_local")},
		{column("closed_on")},
		{status},
		{paid},
		{falsity},
		{column("closed_at"), status},
		{column("closed_local"), column("closed_at"), paid},
		{paid, zero},
		{payment},
		{status, payment},
		{paidAt},
		{column("closed_at"), paidAt, payment},
		{paid, zero, payment},
	}

	tag   = condition("tag <> 'test'", func(r row) (bool, bool) { return r["tag"] != "test", r["tag"] != nil }, "tag")
	large = condition("amount > 10", func(r row) (bool, bool) {
		n, known := r["amount"].(int)
		return n > 10, known
	}, "amount")
	notNull = condition("held is not null", func(r row) (bool, bool) { return r["held"] != nil, true }, "held")
	live    = &expression{
		sql: "(select c.live from shop.channel c where c.id = o.channel_id)", lookup: true, cols: []string{"channel_id"},
		holds: func(t *tables, r row) (bool, bool) {
			id, known := r["channel_id"].(int)
			c, found := t.channels[id]
			return c.live, known && found
		},
	}

	// holds are lists of pause.
	holds = [][]*expression{
		{condition("tag = 'y'", func(r row) (bool, bool) { return r["tag"] == "y", r["tag"] != nil }, "tag")},
		{condition("n < 30", func(r row) (bool, bool) { return r["n"].(int) < 30, true }, "n"), zero},
	}

	// wheres are lists of where.
	wheres = [][]*expression{nil, nil, nil, {tag}, {large}, {tag, large}, {notNull}, {live}, {tag, live}}
)

// lengths are the delays that data hold.
var lengths = []*expression{
	{sql: "len", cols: []string{"len"}, length: func(_ *tables, r row) length {
		l, _ := r["len"].(interval)
		return length(l)
	}},
	{sql: "make_interval(mins => mins)", cols: []string{"mins"}, length: func(_ *tables, r row) length {
		d, ok := minutes(r, "mins")
		return length{time: d, ok: ok}
	}},
	{
		sql: "make_interval(mins => (select c.minutes from shop.channel c where c.id = o.channel_id))", lookup: true,
		cols: []string{"channel_id"}, length: func(t *tables, r row) length {
			id, _ := r["channel_id"].(int)
			n, ok := t.channels[id].minutes.(int)
			return length{time: time.Duration(n) * time.Minute, ok: ok}
		},
	},
}

// paces are the delays between the times of a step that data hold, and counts the numbers of times.
var (
	paces = []*expression{
		{sql: "pace", cols: []string{"pace"}, length: func(_ *tables, r row) length {
			l, _ := r["pace"].(interval)
			return length(l)
		}},
		{sql: "make_interval(mins => held)", cols: []string{"held"}, length: func(_ *tables, r row) length {
			d, ok := minutes(r, "held")
			return length{time: d, ok: ok}
		}},
		lengths[2],
	}
	counts = []*expression{
		{sql: "nags", cols: []string{"nags"}, count: func(_ *tables, r row) (int, bool) {
			n, ok := r["nags"].(int)
			return n, ok
		}},
		{
			sql: "(select c.minutes / 300 from shop.channel c where c.id = o.channel_id)", lookup: true, cols: []string{"channel_id"},
			count: func(t *tables, r row) (int, bool) {
				id, _ := r["channel_id"].(int)
				n, ok := t.channels[id].minutes.(int)
				return n / 300, ok
			},
		},
	}
)

// regions name the calendars of rows, and places their zones.
var (
	regions = []*expression{
		{sql: "region", cols: []string{"region"}, name: func(_ *tables, r row) string { return r["region"].(string) }},
		{
			sql: "coalesce((select c.region from shop.channel c where c.id = o.channel_id), 'every')", lookup: true, cols: []string{"channel_id"},
			name: func(t *tables, r row) string {
				id, _ := r["channel_id"].(int)
				if c, found := t.channels[id]; found {
					return c.region
				}
				return "every"
			},
		},
	}
	places = []*expression{
		{sql: "tz", cols: []string{"tz"}, name: func(_ *tables, r row) string { return r["tz"].(string) }},
		{
			sql: "case when region = 'every' then 'Asia/Tokyo' else tz end", cols: []string{"region", "tz"},
			name: func(_ *tables, r row) string {
				if r["region"] == "every" {
					return "Asia/Tokyo"
				}
				return r["tz"].(string)
			},
		},
	}
)
