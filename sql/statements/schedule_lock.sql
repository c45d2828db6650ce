-- Locks schedules, before their rows of future_job: whoever changes a schedule takes this lock first.
select
    id, crontab, timezone, payload, extract(epoch from deadline)::bigint as deadline, extract(epoch from spread)::bigint as spread,
    misfire, anchor, paused, version, created_at, updated_at
from prescient.schedule
where id = any ($1::text[])
order by id
for update
