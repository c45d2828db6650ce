-- Moves a waiting check to the slot of another instant, earlier or later, also a due one. A request
-- on the row then asks for the new instant, and is honoured at once. Returns the slot; null: no such
-- check.
create or replace function prescient.reschedule(
    job_exec    text,
    entity_name text,
    entity_key  text,
    item_key    text default '',
    check_at    timestamptz default null
)
returns timestamptz
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    clock   timestamptz := nullif(current_setting('prescient_caller.clock', true), '')::timestamptz;
    waiting prescient.future_job;
    target  timestamptz;
    asked   prescient.request;
begin
    perform prescient.require_rights(reschedule.job_exec, prescient.of_schedule(entity_name, entity_key, item_key));
    if clock is not null then
        perform prescient.require_runner(clock);
    end if;
    if num_nulls(job_exec, entity_name, entity_key, check_at) > 0
        or check_at > coalesce(clock, clock_timestamp()) + interval '100 years'
    then
        perform prescient.require_given(job_exec, entity_name, entity_key, check_at, null, clock);
    end if;
    check_at := greatest(check_at, timestamptz '1970-01-01 00:00:00+00'); -- as enqueue
    perform from prescient.future_job where false;
    waiting := prescient.lock_check(prescient.find_job(job_exec), entity_name, entity_key, item_key);
    if waiting.id is null then
        return null;
    end if;
    -- The slot is chosen once the row is locked: the wait for its lock may have crossed a boundary.
    target := prescient.due_slot(check_at, clock);
    update prescient.future_job f
    set next_check_at = target,
        journal = prescient.journal_add(f.journal, prescient.journal_entry('rescheduled', waiting.next_check_at))
    where f.next_check_at = waiting.next_check_at
        and f.job = waiting.job
        and f.id = waiting.id;
    if not found then -- it is locked
        perform prescient.raise_suppressed('the update of the waiting row');
    end if;
    asked := waiting.request;
    if asked.check_at is not null then
        asked.check_at := reschedule.check_at;
        asked.within := null;
        perform prescient.honour(
            waiting.job, reschedule.entity_name, reschedule.entity_key, reschedule.item_key, waiting.next_check_at, asked, clock, null
        );
    end if;
    return target;
end
$$;
revoke all on function prescient.reschedule(text, text, text, text, timestamptz) from public;
