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
    number bigint      := prescient.find_job(job_exec);
    begun  timestamptz := coalesce(clock, clock_timestamp());
    journals text[];
    wanted bigint;
    moved  bigint;
begin
    -- A row that another transaction moved after the snapshot no longer meets the conditions once it is locked.
    select
        array_agg(p.slot), array_agg(p.id), array_agg(p.check_at), array_agg(p.payload), array_agg(p.journal)
    into slots, ids, check_ats, payloads, journals
    from (
        select u.*, f.journal
        from unnest(slots, ids, requested, check_ats, payloads) as u (slot, id, requested, check_at, payload)
        join prescient.future_job f on f.next_check_at = u.slot and f.job = number and f.id = u.id
        where u.slot > begun -- the check of a due row may hold its lock
            and coalesce(f.requested_for, f.first_check_at) = u.requested
            and (f.request).check_at is null
        order by f.entity_name, f.entity_key, f.item_key -- as enqueue_many, so that the two never deadlock
        for update of f
    ) as p;

    -- A slot may have begun while this waited for locks.
    with asked as (
        select *
        from unnest(slots, ids, check_ats, payloads, journals) as u (slot, id, check_at, payload, journal)
    ), waiting as materialized (
        select
            a.*,
            prescient.due_slot(a.check_at, retime.clock) as target,
            prescient.journal_add(a.journal, prescient.journal_entry('rescheduled', a.slot)) as told
        from asked a
        where a.slot > coalesce(retime.clock, clock_timestamp())
    ), moved as (
        update prescient.future_job f
        set next_check_at = w.target,
            requested_for = w.check_at,
            requested_within = null,
            payload = coalesce(f.payload || w.payload::jsonb, w.payload::jsonb, f.payload),
            journal = w.told
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
