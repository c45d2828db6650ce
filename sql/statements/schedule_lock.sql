-- Locks schedules before their rows of future_job. Every change of a schedule takes this lock
-- first.
-- Called by jobs/schedule.Store.lockChanges.
select
    s.id, s.crontab, s.timezone, s.payload, extract(epoch from s.deadline)::bigint as deadline, extract(epoch from s.spread)::bigint as spread,
    s.misfire, s.anchor, coalesce(s.deadline_from, '') as deadline_from, s.starts_at, s.ends_at, coalesce(s.max_runs, 0) as max_runs, s.exclude,
    coalesce(s.sql, '') as sql, coalesce(s.role, '') as role,
    coalesce(extract(epoch from s.timeout)::bigint, 0) as timeout, coalesce(s.job_exec, '') as job_exec, coalesce(s.notify, '') as notify,
    coalesce(s.text, '') as text,
    s.paused, s.version, s.created_at, s.updated_at
from prescient.schedule s
where s.id = any ($1::text[])
order by s.id
for update
