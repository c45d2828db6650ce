-- Puts failed checks that ended since an instant, at most so many, back into the slot for another
-- instant, with a clean error count. They leave history and keep their id. A key that waits already
-- stays as it is, and so does its failed row. Null takes every job, entity_name, entity_key or item_key.
-- this_row: the id of the one row to take; null: every row. An acknowledged row is taken only by its entity_key or its id.
-- Checks of job "schedule" stay: they belong to schedules, and could publish an event again.
create or replace function prescient.retry_failed(
    job_exec    text,
    entity_name text,
    entity_key  text,
    since       timestamptz,
    most        bigint,
    check_at    timestamptz,
    clock       timestamptz,
    item_key    text default null,
    this_row    bigint default null,
    out retried         bigint,
    out waiting_already bigint
)
language plpgsql
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
    target timestamptz;
    entry  text        := prescient.journal_entry('retried', timestamptz 'epoch');
    name   text;
    row_id bigint;
    ids    bigint[];
    ends   timestamptz[];
    back   bigint[]    := '{}';
begin
    for name in
        select distinct h.job_exec
        from prescient.future_job_history h
        where h.outcome = 'failed'
            and h.job_exec <> 'schedule'
            and (retry_failed.job_exec is null or h.job_exec = retry_failed.job_exec)
            and h.finished_at >= since
        order by h.job_exec
    loop
        perform prescient.ensure_job(name);
    end loop;
    select array_agg(h.id), array_agg(h.finished_at), count(*)
    into ids, ends, waiting_already
    from (
        select h.id, h.finished_at
        from prescient.future_job_history h
        where h.outcome = 'failed'
            and h.job_exec <> 'schedule'
            and (retry_failed.job_exec is null or h.job_exec = retry_failed.job_exec)
            and (retry_failed.entity_name is null or h.entity_name = retry_failed.entity_name)
            and (retry_failed.entity_key is null or h.entity_key = retry_failed.entity_key)
            and (retry_failed.item_key is null or h.item_key = retry_failed.item_key)
            and (this_row is null or h.id = this_row)
            and (h.ack is null or retry_failed.entity_key is not null or this_row is not null)
            and h.finished_at >= since
        order by h.finished_at, h.id
        limit most
        for update
    ) as h;
    -- The slot is chosen once the rows are locked: the wait for their locks may have crossed a boundary.
    target := prescient.due_slot(check_at, clock);
    for row_id in
        with failed as materialized (
            select h.*
            from prescient.future_job_history h
            where h.outcome = 'failed' and h.finished_at = any (ends) and h.id = any (ids)
        )
        insert into prescient.future_job (
            id, job, next_check_at, {{kept}}, check_count, last_error, spent, payload, journal
        )
        overriding system value
        select
            id, prescient.find_job(failed.job_exec), target, {{kept}}, check_count, last_error, spent, payload,
            prescient.journal_add(
                prescient.journal_add(prescient.journal_add(journal, json_build_array(
                    'failed', extract(epoch from slot)::bigint, runner, (extract(epoch from lateness) * 1000)::bigint,
                    (extract(epoch from duration) * 1000000)::bigint, case when length(last_error) > 200 then left(last_error, 100) || ' ... ' || right(last_error, 95) else last_error end
                )::text), ack),
                prescient.journal_in(entry, slot)
            )
        from failed
        -- As enqueue_many, so that the two never deadlock. Of two rows of a key, the older one comes back.
        order by failed.entity_name, failed.entity_key, failed.job_exec, failed.item_key, failed.finished_at
        on conflict (entity_name, entity_key, job, item_key) where item_key is not null do nothing
        returning id
    loop
        back := back || row_id;
    end loop;
    delete from prescient.future_job_history h
    where h.outcome = 'failed' and h.finished_at = any (ends) and h.id = any (back);
    retried := cardinality(back);
    waiting_already := waiting_already - retried;
end
$$;
