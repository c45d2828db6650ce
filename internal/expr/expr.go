package expr

import (
	"fmt"
	"strings"

	"github.com/lib/pq"
)

// Type is the type of the value of an expression, as far as rules tell types apart.
type Type string

// The types.
const (
	// Instant is a timestamptz.
	Instant Type = "instant"
	// Local is a timestamp: what a clock on the wall shows in the zone of the rule.
	Local Type = "local"
	// Date is a date. It stands for its midnight in the zone of the rule.
	Date Type = "date"
	// Truth is a boolean. Null counts as false.
	Truth Type = "truth"
	// Span is an interval.
	Span Type = "span"
	// Count is a whole number.
	Count Type = "count"
	// Text is a text.
	Text Type = "text"
)

// TypeOf returns the type of a type of the server, such as "timestamp(3) without time zone". Returns "" for all others.
func TypeOf(name string) Type {
	switch {
	case name == "boolean":
		return Truth
	case name == "date":
		return Date
	case name == "smallint" || name == "integer" || name == "bigint":
		return Count
	case name == "text" || name == "name" || strings.HasPrefix(name, "character"):
		return Text
	case strings.HasPrefix(name, "interval"):
		return Span
	case strings.HasPrefix(name, "timestamp") && strings.HasSuffix(name, "with time zone"):
		return Instant
	case strings.HasPrefix(name, "timestamp") && strings.HasSuffix(name, "without time zone"):
		return Local
	}
	return ""
}

// When reports whether a value says when something happens.
func (t Type) When() bool { return t == Instant || t == Local || t == Date }

// Expr is an expression about a row. The zero value is no expression.
type Expr struct {
	// SQL is the text as the server understood it. It means the same with the search path of pg_catalog alone. It calls
	// the row by the name of its table, or names columns without it.
	SQL string `json:"sql"`
	// Type is the type of the value.
	Type Type `json:"type"`
	// Lookup tells that the expression reads other rows, in a subquery.
	Lookup bool `json:"lookup,omitempty"`
}

// bounds are those of the instants from which delays count. An earlier or a later one stands for never.
const (
	FirstSince = "0001-01-01 00:00:00+00"
	LastSince  = "2200-01-01 00:00:00+00"
)

// instant returns the SQL of the instant of an expression. zone is that of a value without one. Such a value after
// LastSince is "infinity", which is later than any other instant of a row.
func (e Expr) instant(zone string) string {
	if e.Type == Instant {
		return "(" + e.SQL + ")"
	}
	return fmt.Sprintf("(select case when v >= '2199-12-30' then timestamptz 'infinity' else %s end "+
		"from (select (%s)::timestamp as v offset 0) as prescient_v)", wall("v", zone), e.SQL)
}

// ends returns the SQL of the instant at which the expected thing happens. "-infinity" has always happened, whatever
// the type of the expression.
func (e Expr) ends(zone string) string {
	if e.Type == Instant {
		return e.instant(zone)
	}
	return fmt.Sprintf("(select case when v = '-infinity' then timestamptz '-infinity' else %s end "+
		"from (select (%s)::timestamp as v offset 0) as prescient_v)", wall("v", zone), e.SQL)
}

// wall returns the SQL of the first instant at which clocks of a zone show a timestamp. If they skip it, it is the
// instant at which they skip. It is null outside of the years of FirstSince and LastSince.
//
// PostgreSQL alone would take the second of two, and count on from a time that clocks skip. So the offsets of the days
// before and after give two candidates, of which the earlier one that shows the time is right. If neither does, clocks
// skip it: the first minute that shows a later time is the instant of the skip.
//
// Offset 0 lets the server compute each value once. Without it, the planner puts a copy of the expression at each use
// of a name: thousands in the end, which took 1.3 s and 1 GB to plan.
func wall(sql, zone string) string {
	guarded := "select case when w >= '0001-01-03' and w < '2199-12-30' then w end as w " +
		"from (select " + sql + " as w offset 0) as prescient_w offset 0"
	if zone == "" || zone == "UTC" {
		return fmt.Sprintf("(select w at time zone 'UTC' from (%s) as prescient_w)", guarded)
	}
	return strings.NewReplacer("{guarded}", guarded, "{zone}", pq.QuoteLiteral(zone)).Replace(`(
    select case
            when a at time zone {zone} = w then a
            when b at time zone {zone} = w then b
            else (
                select min(m)
                from generate_series(date_trunc('minute', a), b, interval '1 minute') as m
                where m at time zone {zone} > w
            )
        end
    from (
        select w,
            w at time zone 'UTC' - greatest(o, p) as a,
            w at time zone 'UTC' - least(o, p) as b
        from (
            select w,
                ((w - interval '1 day') at time zone 'UTC') at time zone {zone} - (w - interval '1 day') as o,
                ((w + interval '1 day') at time zone 'UTC') at time zone {zone} - (w + interval '1 day') as p
            from ({guarded}) as prescient_w
            offset 0
        ) as prescient_o
        offset 0
    ) as prescient_a
)`)
}
