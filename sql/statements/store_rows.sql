-- Returns at most $4 rows after ($1, $2, $3) in the order of the slot index, for another store.
-- key: the payload field $5, or the entity_key if $5 is null. It leaves out the rows of schedules,
-- which move with these. It also leaves out rows of a job whose name has not committed: the other
-- store would not know what to call them, and a cancel by the name would not find them on their way.
-- Rows of rules stay with the table that they are about. The row of a periodic function stays, too:
-- each store has one, so it would end there as replaced, and nothing would run for its instant.
-- Called by jobs/stores.Store.rowsAfter.
select
    f.next_check_at, f.job, f.id, f.xmin::text as version, j.name, j.paused_at is not null as paused,
    case when $5::text is null then f.entity_key else coalesce(f.payload ->> $5, '') end as key, (
        -- In JSON a payload that is null looks as if there were none.
        to_jsonb(f) || jsonb_build_object('journal', prescient.journal_abroad(f.journal), 'null_payload', f.payload = 'null')
    )::text as data
from prescient.future_job f
join prescient.job j on j.job = f.job
where (f.next_check_at, f.job, f.id) > ($1, $2, $3)
    and (f.entity_name <> 'schedule' or f.job is distinct from (select prescient.find_job('schedule')) or not exists (
        select
        from prescient.schedule s
        where s.id = f.entity_key collate "C"
    ))
    and j.name not in (select r.name from prescient.rule r)
    and (f.entity_name = 'periodic' and f.entity_key = j.name and f.item_key = '') is not true
order by f.next_check_at, f.job, f.id
limit $4
