-- Returns at most $4 rows after ($1, $2, $3) in the order of the slot index, for another store.
-- key: the payload field $5, or the entity_key if $5 is null. It leaves out the rows of schedules,
-- which move with these.
-- Called by jobs/stores.Store.rowsAfter.
select
    f.next_check_at, f.job, f.id, f.xmin::text as version, coalesce(j.name, '') as name, j.paused_at is not null as paused,
    case when $5::text is null then f.entity_key else coalesce(f.payload ->> $5, '') end as key, (
        -- In JSON a payload that is null looks as if there were none.
        to_jsonb(f) || jsonb_build_object('journal', prescient.journal_abroad(f.journal), 'null_payload', f.payload = 'null')
    )::text as data
from prescient.future_job f
left join prescient.job j on j.job = f.job
where (f.next_check_at, f.job, f.id) > ($1, $2, $3)
    and (f.entity_name <> 'schedule' or f.job <> prescient.find_job('schedule') or not exists (
        select
        from prescient.schedule s
        where s.id = f.entity_key collate "C"
    ))
order by f.next_check_at, f.job, f.id
limit $4
