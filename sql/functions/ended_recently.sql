-- Returns the last row of a key that ended as done in the last seconds, with the slot that it ended
-- in; null: there is none. With a clock, a row ended at its slot plus lateness and duration, because
-- finished_at is the time of the database. It looks into history by the key and the time; the bound on
-- finished_at leaves out partitions of earlier months.
-- Volatile, so that each call sees what has been committed by then.
-- Called by enqueue_slowly and honour.
create or replace function prescient.ended_recently(
    job_exec    text,
    entity_name text,
    entity_key  text,
    item_key    text,
    seconds     integer,
    clock       timestamptz,
    out id      bigint,
    out slot    timestamptz
)
language plpgsql
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    -- A volatile expression would not leave out partitions.
    since timestamptz := coalesce(clock, clock_timestamp()) - seconds * interval '1 second';
begin
    if clock is not null then
        select h.id, h.slot
        into ended_recently.id, ended_recently.slot
        from prescient.future_job_history h
        where h.entity_name = ended_recently.entity_name
            and h.entity_key = ended_recently.entity_key
            and h.job_exec = ended_recently.job_exec
            and h.item_key = ended_recently.item_key
            and h.outcome = 'done'
            and h.slot + coalesce(h.lateness, '0') + coalesce(h.duration, '0') >= since
        order by h.slot desc
        limit 1;
        return;
    end if;
    select h.id, h.slot
    into ended_recently.id, ended_recently.slot
    from prescient.future_job_history h
    where h.entity_name = ended_recently.entity_name
        and h.entity_key = ended_recently.entity_key
        and h.job_exec = ended_recently.job_exec
        and h.item_key = ended_recently.item_key
        and h.outcome = 'done'
        and h.finished_at >= since
    order by h.finished_at desc
    limit 1;
end
$$;
