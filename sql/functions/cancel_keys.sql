-- Ends the waiting checks of a rule on many entities of a name, as cancel does for one. Returns
-- their number. A check whose slot has begun is left to its run, which finds out how the row ends: its
-- own step may have closed the row. It locks them in the order of their keys, so that it never
-- deadlocks with rule_wait_many. The plans do not depend on the number of keys, and to make them for each array of keys
-- would cost a delete of one row 250 microseconds. Citus makes no such plan. Called by the triggers of rules.
create or replace function prescient.cancel_keys(job_exec text, entity_name text, entity_keys text[], clock timestamptz default null)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
set enable_seqscan = off
set jit = off
set plan_cache_mode = auto -- so that the value that is set below ends with the function
as $$
#variable_conflict use_column
declare
    number    bigint := prescient.find_rule(job_exec);
    entry     text := prescient.journal_entry('cancelled', timestamptz 'epoch');
    places    tid[];  -- of the rows that were locked
    gone      bigint; -- rows of these that were deleted
    cancelled bigint := 0;
    arriving  bigint;
begin
    if number is null then
        return 0;
    end if;
    if current_setting('citus.enable_schema_based_sharding', true) is null then
        perform set_config('plan_cache_mode', 'force_generic_plan', true);
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

    for turn in 1 .. 100 loop
        select array_agg(f.place)
        into places
        -- Key by key: a plan for all keys at once may read the whole index.
        from (select distinct k.entity_key collate "C" as entity_key from unnest(entity_keys) as k (entity_key) order by 1) as k
        cross join lateral (
            select f.ctid as place
            from prescient.future_job f
            where f.entity_name = cancel_keys.entity_name
                and f.entity_key = k.entity_key
                and f.job = number
                and f.item_key = ''
                and f.next_check_at > coalesce(cancel_keys.clock, clock_timestamp())
            limit 1
            for update
        ) as f;
        if places is null then
            return cancelled + arriving;
        end if;
        -- In another statement, which sees rows where other transactions have moved them. In a transaction with one
        -- snapshot such a row fails the lock.
        with ended as (
            delete from prescient.future_job f
            where f.ctid = any (places)
            returning f.*
        ), archived as (
            insert into prescient.future_job_history (
                id, job_exec, slot, {{kept}},
                check_count, error_count, last_error, spent, payload, request, journal, outcome
            )
            select
                e.id, cancel_keys.job_exec, e.next_check_at, {{e.kept}},
                e.check_count, e.error_count, e.last_error, e.spent, e.payload, e.request,
                prescient.journal_add(e.journal, prescient.journal_in(entry, e.next_check_at)), 'cancelled'
            from ended e
        )
        select count(*) into gone from ended;
        cancelled := cancelled + gone;
        if gone = cardinality(places) then
            return cancelled + arriving;
        end if;
    end loop;
    perform prescient.raise_suppressed(format('the end of checks of rule %L, entity_name %L', job_exec, entity_name));
end
$$;
revoke all on function prescient.cancel_keys(text, text, text[], timestamptz) from public;
