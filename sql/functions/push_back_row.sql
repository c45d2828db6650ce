-- push_back for a job of which only the number is certain. job_exec is null while the transaction
-- of its first enqueue is open, and then the first slot is taken. seconds: within.
-- records: whether a call on a row whose slot has begun is recorded, with the row's own payload. Otherwise
-- it returns null for such a row, as if there were none.
-- Called by enqueue_slowly, push_back and honour.
create or replace function prescient.push_back_row(
    number      bigint,
    job_exec    text,
    entity_name text,
    entity_key  text,
    item_key    text,
    check_at    timestamptz,
    max_wait    interval,
    seconds     integer,
    clock       timestamptz,
    records     boolean default true
)
returns timestamptz
language plpgsql
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    waiting prescient.future_job;
    target  timestamptz;
    latest  timestamptz; -- by max_wait
    key     text := prescient.window_key(job_exec, entity_name, entity_key, item_key);
begin
    waiting := prescient.lock_check(number, entity_name, entity_key, item_key);
    if waiting.id is null then
        return null;
    end if;
    -- The slot is chosen once the row is locked: the wait for its lock may have crossed a boundary.
    if waiting.next_check_at <= coalesce(clock, clock_timestamp()) then
        if push_back_row.job_exec is distinct from 'schedule' then -- a due schedule publishes in its slot
            if not records then
                return null;
            end if;
            perform prescient.record_request(
                waiting.next_check_at, waiting.job, waiting.id,
                prescient.make_request(check_at, seconds, waiting.payload, waiting.group_key, 'push_back', max_wait, null)
            );
        end if;
        return waiting.next_check_at;
    end if;
    -- A request that was recorded before max_wait had a bound may have one with which the sum fails.
    if prescient.wait_fits(max_wait) then
        latest := (
            select prescient.slot_floor((waiting.first_check_at at time zone 'UTC' + max_wait) at time zone 'UTC', s.width)
            from prescient.setting s
        );
    end if;
    target := least(prescient.due_slot(check_at, clock, case when key is not null then seconds end, key), latest);
    if waiting.next_check_at >= target then
        return waiting.next_check_at;
    end if;
    update prescient.future_job f
    set next_check_at = target,
        journal = prescient.journal_add(f.journal, prescient.journal_entry('pushed_back', waiting.next_check_at))
    where f.next_check_at = waiting.next_check_at
        and f.job = waiting.job
        and f.id = waiting.id;
    if not found then -- it is locked
        perform prescient.raise_suppressed('the update of the waiting row');
    end if;
    return target;
end
$$;
