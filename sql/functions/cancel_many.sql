-- Cancels up to so many (most) waiting checks of a job, an entity_name, a pattern of entity_key, a
-- group and fields of the payload. Nulls do not narrow, and checks of schedules stay. It begins behind
-- a position, which is a slot (at), a job number (number) and an id (after_id): from the first slot,
-- it would read everything again that the caller has walked past. It leaves a row that another
-- transaction has locked: waiting could deadlock with a transaction that writes the same rows in
-- another order. Returns how many it cancelled, and the position of the last one.
create or replace function prescient.cancel_many(
    job_exec    text,
    entity_name text,
    key_pattern text,
    group_key   text,
    payload     jsonb,
    most        bigint,
    at          timestamptz,
    number      bigint,
    after_id    bigint,
    out cancelled bigint,
    out slot      timestamptz,
    out job       bigint,
    out id        bigint
)
language plpgsql
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
    waiting record;
begin
    cancelled := 0;
    for waiting in
        select f.next_check_at, f.job, f.id
        from prescient.future_job f
        where f.job is distinct from prescient.find_job('schedule')
            and (cancel_many.job_exec is null or f.job = prescient.find_job(cancel_many.job_exec))
            and (cancel_many.entity_name is null or f.entity_name = cancel_many.entity_name)
            and (cancel_many.key_pattern is null or f.entity_key like cancel_many.key_pattern)
            and (cancel_many.group_key is null or f.group_key = cancel_many.group_key)
            and (cancel_many.payload is null or f.payload @> cancel_many.payload)
            and (f.next_check_at, f.job, f.id) > (at, number, after_id)
        order by f.next_check_at, f.job, f.id
        limit most
        for update skip locked
    loop
        if prescient.end_row(waiting.next_check_at, waiting.job, waiting.id, null, 'cancelled') then
            cancelled := cancelled + 1;
        end if;
        slot := waiting.next_check_at;
        job := waiting.job;
        id := waiting.id;
    end loop;
end
$$;
