-- Returns what clocks of a time zone ($1) show at an instant of each week, from a year ago to 5 years ahead, as seconds
-- after UTC, and whether the server takes the name for an abbreviation.
-- Called by internal/rulestore.Store.zone.
select
    z.at, extract(epoch from (z.at at time zone $1::text) - (z.at at time zone 'UTC'))::int as shift,
    exists (select from pg_timezone_abbrevs as a where a.abbrev = upper($1::text)) as abbreviation
from generate_series(date_trunc('day', now()) - interval '1 year', now() + interval '5 years', interval '7 days') as z (at)
order by z.at
