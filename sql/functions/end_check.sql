-- Ends the waiting row of a key, and puts it into history. Reports whether there was one. An anonymous row is never found.
-- A row on its way from another store ends in the same way when it arrives. number: the job, if its name may not have
-- committed yet.
create or replace function prescient.end_check(
    outcome     text,
    entity_name text,
    entity_key  text,
    job_exec    text,
    item_key    text,
    number      bigint default null
)
returns boolean
language plpgsql
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    waiting  prescient.future_job;
    arriving boolean := false;
    ended    boolean := false;
    entry    text := prescient.journal_entry(outcome, timestamptz 'epoch');
begin
    perform prescient.require_rights(end_check.job_exec, prescient.of_schedule(entity_name, entity_key, item_key));
    -- First, because settle_rows has locked the copies, and this waits for it. A copy whose slot has begun does not
    -- count: its row may never have been released, and have been checked in its own store. Copies have names, so none
    -- is of a job whose name has not committed.
    if end_check.job_exec is not null then
        with marked as (
            update prescient.transfer_in i
            set outcome = end_check.outcome,
                told = entry
            where i.entity_name = end_check.entity_name
                and i.entity_key = end_check.entity_key
                and i.job_exec = end_check.job_exec
                and i.item_key = end_check.item_key
                and i.outcome is null
            returning i.data ->> 'next_check_at' as slot
        )
        select count(*) > 0 into arriving from marked where slot::timestamptz > clock_timestamp();
    end if;

    waiting := prescient.lock_check(coalesce(number, prescient.find_job(job_exec)), entity_name, entity_key, item_key);
    if waiting.id is not null then
        ended := prescient.end_row(waiting.next_check_at, waiting.job, waiting.id, job_exec, outcome);
    end if;
    return ended or arriving;
end
$$;
