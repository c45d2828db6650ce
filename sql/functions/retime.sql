-- Moves waiting checks of a job to the slots of other instants, each given by its slot, its id and the
-- instant that it was requested for: a row that has been moved since is left alone, and so is one that
-- is due or has a request.
-- payloads: null leaves the payload. withins: windows in seconds, or null; see enqueue. Returns how
-- many it moved.
create or replace function prescient.retime(
    job_exec  text,
    slots     timestamptz[],
    ids       bigint[],
    requested timestamptz[],
    check_ats timestamptz[],
    payloads  text[],
    withins   bigint[],
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
    moved  bigint := 0;
    asked  record;
    f      prescient.future_job;
    target timestamptz;
begin
    for asked in
        select u.slot, u.id, u.requested, u.check_at, u.payload, u.within
        from unnest(slots, ids, requested, check_ats, payloads, withins) as u (slot, id, requested, check_at, payload, within)
        order by u.slot, u.id
    loop
        select w.*
        into f
        from prescient.future_job w
        where w.next_check_at = asked.slot and w.job = number and w.id = asked.id
        for update;
        continue when not found
            or f.next_check_at <= coalesce(retime.clock, clock_timestamp())
            or coalesce(f.requested_for, f.first_check_at) <> asked.requested
            or (f.request).check_at is not null;
        target := prescient.due_slot(
            asked.check_at, retime.clock, asked.within::integer,
            prescient.window_key(retime.job_exec, f.entity_name, f.entity_key, f.item_key)
        );
        update prescient.future_job w
        set next_check_at = target,
            requested_for = asked.check_at,
            requested_within = asked.within,
            payload = coalesce(asked.payload::jsonb, f.payload),
            trace = prescient.traced(f.trace, prescient.journal_entry('rescheduled', asked.slot))
        where w.next_check_at = asked.slot and w.job = number and w.id = asked.id;
        if not found then
            perform prescient.raise_suppressed('the update of the waiting row');
        end if;
        moved := moved + 1;
    end loop;
    return moved;
end
$$;
revoke all on function prescient.retime(text, timestamptz[], bigint[], timestamptz[], timestamptz[], text[], bigint[], timestamptz) from public;
