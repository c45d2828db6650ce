-- Samples $1 percent of the blocks of the schedules that are not paused, with the columns of
-- schedule_list.
-- Called by jobs/schedule.Sample.
select
    s.id, s.crontab, s.timezone, s.payload, extract(epoch from s.deadline)::bigint as deadline, extract(epoch from s.spread)::bigint as spread,
    s.misfire, s.anchor, coalesce(s.deadline_from, '') as deadline_from, s.starts_at, s.ends_at, coalesce(s.max_runs, 0) as max_runs, s.exclude,
    coalesce(s.sql, '') as sql, coalesce(s.role, '') as role,
    coalesce(extract(epoch from s.timeout)::bigint, 0) as timeout, coalesce(s.job_exec, '') as job_exec, coalesce(s.notify, '') as notify,
    coalesce(s.text, '') as text,
    s.paused, s.version, s.created_at, s.updated_at,
    coalesce(d.dropped, 0) as dropped, coalesce(d.runs, 0) as runs, d.last_at,
    f.next_check_at, f.payload as waiting, coalesce(f.error_count, 0) as error_count, coalesce(f.last_error, '') as last_error,
    (select j.paused_at from prescient.job j where j.name = 'schedule') as publishing_paused_at,
    s.paused_at, coalesce(s.paused_by, '') as paused_by
from prescient.schedule s tablesample system ($1) repeatable (1)
left join lateral (
    select d.dropped, d.runs, d.last_at
    from prescient.schedule_state d
    where d.id = s.id
    limit 1
) as d on true
left join lateral (
    select f.next_check_at, f.payload, f.error_count, f.last_error
    from prescient.future_job f
    where f.entity_name = 'schedule'
        and f.entity_key = s.id
        and f.job = (select prescient.find_job('schedule'))
        and f.item_key = ''
    limit 1
) as f on true
where not s.paused
