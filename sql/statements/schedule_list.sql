-- Returns a page of schedules after id $1, with the row of future_job that stands for each. $2: the
-- beginning of the ids. $3: only those in this state, or null. $5: only these ids, or null. The
-- limits keep the planner from joining all rows to a page.
-- $6: the page ends with the second row after that many bytes of payloads, or null. That second row
-- tells the caller that there are more.
-- Called by jobs/schedule.Store.list.
select
    id, crontab, timezone, payload, deadline, spread, misfire, anchor, deadline_from, starts_at, ends_at, max_runs, exclude, sql, role, timeout, job_exec, notify, text,
    paused, version, created_at, updated_at, dropped, runs, last_at, next_check_at, waiting, error_count, last_error, publishing_paused_at, paused_at, paused_by
from (
    select
        page.*,
        sum(case when $6::bigint is not null then octet_length(payload::text) end) over (
            order by id rows between unbounded preceding and 2 preceding
        ) as bytes
    from (
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
        from prescient.schedule s
        left join lateral (
            select d.dropped, d.runs, d.last_at
            from prescient.schedule_state d
            where d.id = s.id
            limit 1
        ) as d on true
        left join lateral (
            select f.id, f.next_check_at, f.payload, f.error_count, f.last_error
            from prescient.future_job f
            where f.entity_name = 'schedule'
                and f.entity_key = s.id
                and f.job = (select prescient.find_job('schedule'))
                and f.item_key = ''
            limit 1
        ) as f on true
        where s.id > $1
            and s.id >= $2
            and s.id < $2 || chr(1114111)
            and ($3::text is null or $3 = case when s.paused then 'paused' when f.id is null then 'ended' else 'active' end)
            and ($5::text[] is null or s.id = any ($5))
        order by s.id
        limit $4
    ) as page
) as page
where $6 is null or coalesce(bytes, 0) < $6
order by id
