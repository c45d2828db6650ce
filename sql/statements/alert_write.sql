-- Writes findings ($1) with their texts ($2), since when they are there ($3) and when they were told ($4; empty: never).
-- Called by internal/alert.decision.write.
insert into prescient.alert as a (finding, text, since, told_at)
select finding, text, nullif(since, '')::timestamptz, nullif(told_at, '')::timestamptz
from unnest($1::text[], $2::text[], $3::text[], $4::text[]) as g (finding, text, since, told_at)
on conflict (finding) do update
set text = excluded.text, since = excluded.since, told_at = excluded.told_at
where (a.text, a.since, a.told_at) is distinct from (excluded.text, excluded.since, excluded.told_at)
