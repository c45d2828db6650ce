-- Writes findings ($1) with their texts ($2), since when they are there ($3) and when they were told ($4; empty: never),
-- and whether they only stay ($5).
-- Called by internal/alert.decision.write.
insert into prescient.alert as a (finding, text, since, told_at, stays)
select finding, text, nullif(since, '')::timestamptz, nullif(told_at, '')::timestamptz, stays
from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::boolean[]) as g (finding, text, since, told_at, stays)
on conflict (finding) do update
set text = excluded.text, since = excluded.since, told_at = excluded.told_at, stays = excluded.stays
where (a.text, a.since, a.told_at, a.stays) is distinct from (excluded.text, excluded.since, excluded.told_at, excluded.stays)
