-- Writes schedules anew, given as arrays in which '' and 0 are null.
update prescient.schedule s
set crontab = g.crontab,
    timezone = g.timezone,
    payload = nullif(g.payload, '')::jsonb,
    deadline = nullif(g.deadline, 0) * interval '1 second',
    spread = g.spread * interval '1 second',
    misfire = g.misfire,
    anchor = g.anchor,
    paused = g.paused,
    version = s.version + 1,
    updated_at = clock_timestamp()
from unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::timestamptz[], $9::boolean[]
) as g (id, crontab, timezone, payload, deadline, spread, misfire, anchor, paused)
where s.id = g.id collate "C"
