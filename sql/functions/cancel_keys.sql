-- Ends the waiting checks of a rule on many entities of a name, as cancel does for one. Returns
-- their number. A check whose slot has begun is left to its run, which finds out how the row ends: its
-- own step may have closed the row. It locks them in the order of their keys, so that it never
-- deadlocks with rule_wait_many. Called by the triggers of rules.
create or replace function prescient.cancel_keys(job_exec text, entity_name text, entity_keys text[], clock timestamptz default null)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    number    bigint := prescient.find_rule(job_exec);
    entry     text := prescient.journal_entry('cancelled', timestamptz 'epoch');
    waiting   record;
    cancelled bigint := 0;
    arriving  bigint;
begin
    if number is null then
        return 0;
    end if;
    perform from prescient.future_job where false;
    -- First, as in end_checks.
    with marked as (
        update prescient.transfer_in i
        set outcome = 'cancelled',
            told = entry
        where i.entity_name = cancel_keys.entity_name
            and i.entity_key = any (cancel_keys.entity_keys)
            and i.job_exec = cancel_keys.job_exec
            and i.item_key = ''
            and i.outcome is null
        returning i.data ->> 'next_check_at' as slot
    )
    select count(*) into arriving from marked where slot::timestamptz > clock_timestamp();

    for waiting in
        select f.next_check_at, f.job, f.id
        from prescient.future_job f
        where f.entity_name = cancel_keys.entity_name
            and f.entity_key = any (cancel_keys.entity_keys)
            and f.job = number
            and f.item_key = ''
            and f.next_check_at > coalesce(cancel_keys.clock, clock_timestamp())
        order by f.entity_key
        for update
    loop
        if prescient.end_row(waiting.next_check_at, waiting.job, waiting.id, job_exec, 'cancelled') then
            cancelled := cancelled + 1;
        end if;
    end loop;
    return cancelled + arriving;
end
$$;
revoke all on function prescient.cancel_keys(text, text, text[], timestamptz) from public;
