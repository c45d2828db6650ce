-- A sample of $1 percent of the blocks of the schedules that are not paused, as schedule_due has them, and when each was created
-- and changed last.
select
    id, crontab, timezone, payload, extract(epoch from deadline)::bigint as deadline, extract(epoch from spread)::bigint as spread,
    misfire, anchor, coalesce(deadline_from, '') as deadline_from, starts_at, ends_at, coalesce(max_runs, 0) as max_runs, exclude,
    created_at, updated_at
from prescient.schedule tablesample system ($1) repeatable (1)
where not paused
