-- Returns at most $2 schedules after id $1, for another store, each with its row of future_job if
-- it waits.
-- Called by jobs/stores.Store.schedulesAfter.
select
    s.id, s.xmin::text as version, row_to_json(s)::text as schedule, d.data as dropped,
    f.next_check_at, coalesce(f.job, 0) as job, coalesce(f.id, 0) as row_id, f.version as row_version, f.data,
    exists (select from prescient.job j where j.name = 'schedule' and j.paused_at is not null) as paused
from prescient.schedule s
left join lateral (
    select row_to_json(d)::text as data
    from prescient.schedule_state d
    where d.id = s.id
    limit 1
) as d on true
left join lateral (
    select
        f.next_check_at, f.job, f.id, f.xmin::text as version,
        (to_jsonb(f) || jsonb_build_object('journal', prescient.journal_abroad(f.journal)))::text as data
    from prescient.future_job f
    where f.entity_name = 'schedule'
        and f.entity_key = s.id
        and f.job = (select prescient.find_job('schedule'))
        and f.item_key = ''
    limit 1
) as f on true
where s.id > $1
order by s.id
limit $2
