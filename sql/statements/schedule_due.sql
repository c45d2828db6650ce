-- What a run has to know of the schedules whose rows of future_job it holds. Paused ones have none.
select
    id, crontab, timezone, payload, extract(epoch from deadline)::bigint as deadline, extract(epoch from spread)::bigint as spread,
    misfire, anchor
from prescient.schedule
where id = any ($1::text[]) and not paused
