package expr

import "fmt"

// RowDueSQL returns what the row alone says of when a step is due whose delay the data hold: an instant that is not
// later than the step, and null for never. since is the SQL of RowSinceSQL. least is that of the least delay, as an
// interval, and empty if the step may be due at any time.
func (f Facts) RowDueSQL(step int, since, least string) string {
	e := f.After[step]
	switch {
	case !e.Lookup && f.Timezone.SQL == "":
		return f.shift(since, e.SQL)
	case least == "":
		return fmt.Sprintf("case when %s is not null then timestamptz '-infinity' end", since)
	}
	return fmt.Sprintf("%s + %s", since, least)
}

// shift returns the SQL of the instant that is an interval after another. Days and months count by the clocks of the
// zone. It is null for an infinite interval, and for an instant that is not between FirstSince and LastSince: it stands
// for never, and no check can wait for it.
func (f Facts) shift(since, interval string) string {
	const bounded = `(
    select case when b = '-infinity' or d >= timestamptz '%s' and d < timestamptz '%s' then d end
    from (
        select b, case when isfinite(b) and isfinite(l) then %s else b end as d
        from (select %s as b, (%s) as l offset 0) as prescient_l
        where isfinite(l)
        offset 0
    ) as prescient_d
)`
	due := "b + l"
	if f.Zone != "" && f.Zone != "UTC" {
		const days = "make_interval(years => extract(year from l)::int, months => extract(month from l)::int, " +
			"days => extract(day from l)::int)"
		due = fmt.Sprintf("%s + (l - %s)", wall(fmt.Sprintf("b at time zone '%s' + %s", f.Zone, days), f.Zone), days)
	}
	return fmt.Sprintf(bounded, FirstSince, LastSince, due, since, interval)
}
