-- Ends waiting rows by key and puts them into history. A null job_exec takes every job of the
-- entity but "schedule", whose rows belong to schedules; a null item_key takes every item.
-- Anonymous rows are never found. Rows on their way from another store end in the same way when
-- they arrive. number: the job, if its name may not have committed yet.
create or replace function prescient.end_by_key(
    outcome     text,
    entity_name text,
    entity_key  text,
    job_exec    text,
    item_key    text,
    number      bigint default null
)
returns bigint
language plpgsql
as $$
#variable_conflict use_column
declare
    ended    bigint;
    arriving bigint;
    entry    text := prescient.trace_entry(outcome, timestamptz 'epoch');
begin
    if end_by_key.job_exec = 'schedule' then
        perform prescient.require_schedules();
    end if;
    -- First, because settle_rows has locked the copies, and this waits for it. A copy whose slot has begun does not
    -- count: its row may never have been released, and have been checked in its own store.
    with marked as (
        update prescient.store_in i
        set outcome = end_by_key.outcome,
            told = entry
        where i.entity_name = end_by_key.entity_name
            and i.entity_key = end_by_key.entity_key
            and case
                when end_by_key.job_exec is null then end_by_key.number is null and i.job_exec <> 'schedule'
                else i.job_exec = end_by_key.job_exec
            end
            and (end_by_key.item_key is null or i.item_key = end_by_key.item_key)
            and i.item_key is not null
            and i.outcome is null
        returning i.data ->> 'next_check_at' as slot
    )
    select count(*) into arriving from marked where slot::timestamptz > clock_timestamp();

    with gone as (
        delete from prescient.future_job f
        where f.entity_name = end_by_key.entity_name
            and f.entity_key = end_by_key.entity_key
            and case
                when end_by_key.number is not null then f.job = end_by_key.number
                when end_by_key.job_exec is null then f.job <> prescient.number_of('schedule')
                else f.job = prescient.number_of(end_by_key.job_exec)
            end
            and (end_by_key.item_key is null or f.item_key = end_by_key.item_key)
            and f.item_key is not null
        returning *
    )
    insert into prescient.future_job_history (
        id, job_exec, entity_name, entity_key, item_key, group_key, first_check_at, slot, check_count, error_count,
        last_error, spent, payload, enqueued_at, enqueued_by, enqueued_app, enqueued_actor, asked_for, asked_within, request, trace, outcome
    )
    select
        id, coalesce((select j.name from prescient.job j where j.job = gone.job), end_by_key.job_exec, '#' || gone.job), entity_name, entity_key, item_key, group_key,
        first_check_at, next_check_at, check_count, error_count, last_error, spent, payload, enqueued_at, enqueued_by, enqueued_app, enqueued_actor, asked_for,
        asked_within, request,
        prescient.traced(trace, prescient.trace_in(entry, next_check_at)), end_by_key.outcome
    from gone;
    get diagnostics ended = row_count;
    return ended + arriving;
end
$$;
