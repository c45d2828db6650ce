-- Moves waiting checks of a job to the slots of other instants. Each is given by its slot, its id and
-- the instant that it was requested for. A row that has been moved since is left alone, and so is one
-- that is due or has a request.
-- payloads: fields of the payload to set; null: none. Returns how many it moved.
create or replace function prescient.retime(
    job_exec  text,
    slots     timestamptz[],
    ids       bigint[],
    requested timestamptz[],
    check_ats timestamptz[],
    payloads  text[],
    clock     timestamptz default null
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
as $$
#variable_conflict use_column
declare
    number bigint := prescient.find_job(job_exec);
    wanted bigint;
    moved  bigint;
begin
    -- A row that another transaction moved after the snapshot no longer meets the conditions once it is locked.
    with asked as (
        select *
        from unnest(slots, ids, requested, check_ats, payloads) as u (slot, id, requested, check_at, payload)
    ), picked as materialized (
        select a.*, f.entity_name, f.entity_key, f.item_key, f.payload as was, f.trace
        from asked a
        join prescient.future_job f on f.next_check_at = a.slot and f.job = number and f.id = a.id
        where a.slot > coalesce(retime.clock, clock_timestamp())
            and coalesce(f.requested_for, f.first_check_at) = a.requested
            and (f.request).check_at is null
        order by f.entity_name, f.entity_key, f.item_key -- as enqueue_many, so that the two never deadlock
        for update of f
    ), waiting as materialized ( -- the wait for locks may have taken until after a boundary
        select
            p.*,
            prescient.due_slot(p.check_at, retime.clock) as target,
            prescient.traced(p.trace, prescient.journal_entry('rescheduled', p.slot)) as told
        from picked p
        where p.slot > coalesce(retime.clock, clock_timestamp())
    ), moved as (
        update prescient.future_job f
        set next_check_at = w.target,
            requested_for = w.check_at,
            requested_within = null,
            payload = coalesce(w.was || w.payload::jsonb, w.payload::jsonb, w.was),
            trace = w.told
        from waiting w
        where f.next_check_at = w.slot and f.job = number and f.id = w.id
        returning 1
    )
    select (select count(*) from waiting), (select count(*) from moved)
    into wanted, moved;
    if moved < wanted then
        perform prescient.raise_suppressed('the update of a waiting row');
    end if;
    return moved;
end
$$;
revoke all on function prescient.retime(text, timestamptz[], bigint[], timestamptz[], timestamptz[], text[], timestamptz) from public;
