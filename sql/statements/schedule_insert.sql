-- Writes new schedules, given as arrays in which '' and 0 are null, in the order of their ids. Those whose id is taken do not come back.
insert into prescient.schedule (id, crontab, timezone, payload, deadline, spread, misfire, anchor, paused)
select
    id, crontab, timezone, nullif(payload, '')::jsonb, nullif(deadline, 0) * interval '1 second', spread * interval '1 second', misfire, anchor, paused
from unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::timestamptz[], $9::boolean[]
) as g (id, crontab, timezone, payload, deadline, spread, misfire, anchor, paused)
order by id collate "C"
on conflict (id) do nothing
returning id
