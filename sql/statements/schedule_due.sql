-- Returns what a run has to know of the schedules whose rows of future_job it holds. It leaves out
-- paused schedules.
-- Called by jobs/schedule.PublishConfig.read.
select
    id, crontab, timezone, payload, extract(epoch from deadline)::bigint as deadline, extract(epoch from spread)::bigint as spread,
    misfire, anchor, coalesce(deadline_from, '') as deadline_from, starts_at, ends_at, coalesce(max_runs, 0) as max_runs, exclude,
    coalesce(sql, '') as sql, coalesce(role, '') as role,
    coalesce(extract(epoch from timeout)::bigint, 0) as timeout, coalesce(job_exec, '') as job_exec, coalesce(notify, '') as notify,
    coalesce(text, '') as text
from prescient.schedule
where id = any ($1::text[]) and not paused
