package expr

import "fmt"

// RowDueSQL returns what the row alone says of when a step is due whose delay the data hold: an instant that is not
// later than the step, and null for never. since is the SQL of RowSinceSQL. least is that of the least delay, as an
// interval, and empty if the step may be due at any time.
func (f Facts) RowDueSQL(step int, since, least string) string {
	e := f.After[step]
	switch {
	case !e.Lookup:
		return f.shift(since, e.SQL)
	case least == "":
		return fmt.Sprintf("case when %s is not null then timestamptz '-infinity' end", since)
	}
	return fmt.Sprintf("%s + %s", since, least)
}

// lastDue is after all instants at which a step may be due, and before those that no check can wait for.
const lastDue = "9999-01-01 00:00:00+00"

// shift returns the SQL of the instant that is an interval after another. Days and months count by the clocks of the
// zone. It is null for an infinite interval, and for an instant that no check can wait for.
func (f Facts) shift(since, interval string) string {
	if f.Zone == "" || f.Zone == "UTC" {
		return fmt.Sprintf("(select case when not isfinite(l) then null when b + l < timestamptz '%s' then b + l end "+
			"from (select %s as b, (%s) as l offset 0) as prescient_l)", lastDue, since, interval)
	}
	const days = "make_interval(years => extract(year from l)::int, months => extract(month from l)::int, " +
		"days => extract(day from l)::int)"
	return fmt.Sprintf(`(
    select case
            when not isfinite(l) then null
            when isfinite(b) then %s + (l - %s)
            else b
        end
    from (select %s as b, (%s) as l offset 0) as prescient_l
)`, wall(fmt.Sprintf("b at time zone '%s' + %s", f.Zone, days), f.Zone), days, since, interval)
}
