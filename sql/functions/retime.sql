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
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    number bigint      := prescient.find_job(job_exec);
    begun  timestamptz := coalesce(clock, clock_timestamp());
    journals text[];
    places tid[];
    wanted bigint;
    moved  bigint;
begin
    -- A row that another transaction moved after the snapshot no longer meets the conditions once it is locked.
    select
        array_agg(p.slot), array_agg(p.id), array_agg(p.check_at), array_agg(p.payload), array_agg(p.journal), array_agg(p.place)
    into slots, ids, check_ats, payloads, journals, places
    from (
        select u.slot, u.id, u.check_at, u.payload, f.journal, f.place
        from (
            select u.*
            from unnest(slots, ids, requested, check_ats, payloads) as u (slot, id, requested, check_at, payload)
            cross join lateral (
                select f.entity_name, f.entity_key, f.item_key
                from prescient.future_job f
                where f.next_check_at = u.slot and f.job = number and f.id = u.id
                offset 0 -- row by row: a join may read all rows of the job
            ) as f
            where u.slot > begun -- the check of a due row may hold its lock
            order by f.entity_name, f.entity_key, f.item_key -- as enqueue_many, so that the two never deadlock
        ) as u
        cross join lateral (
            select f.journal, f.ctid as place
            from prescient.future_job f
            where f.next_check_at = u.slot
                and f.job = number
                and f.id = u.id
                and coalesce(f.requested_for, f.first_check_at) = u.requested
                and (f.request).check_at is null
            limit 1
            for update
        ) as f
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
        where f.ctid = any (places) and f.id + 0 = w.id -- no join by an index, which may read all rows of the job
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
