-- Ends the waiting rows of an entity, and puts them into history. It leaves those of job "schedule", those that schedules
-- enqueue, and those of rules, which keep their rows in step with a table themselves. Returns their number.
-- Anonymous rows are never found. Rows on their way from another store end in the same way when
-- they arrive.
create or replace function prescient.end_checks(outcome text, entity_name text, entity_key text)
returns bigint
language plpgsql
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    waiting  record;
    ended    bigint := 0;
    arriving bigint;
    entry    text := prescient.journal_entry(outcome, timestamptz 'epoch');
    others   bigint[]; -- the jobs whose rows it leaves
    numbers  bigint[]; -- the jobs of the rows to end
    items    text[];   -- and their items
begin
    -- By their names, because a name may have no row in table job.
    others := array(
        select prescient.find_job(o.name)
        from (select 'schedule' as name union all select r.name from prescient.rule r) as o
    );
    -- First, as end_check.
    with marked as (
        update prescient.transfer_in i
        set outcome = end_checks.outcome,
            told = entry
        where i.entity_name = end_checks.entity_name
            and i.entity_key = end_checks.entity_key
            and i.job_exec <> 'schedule'
            and not exists (select from prescient.rule r where r.name = i.job_exec)
            and i.item_key is not null
            and not (i.entity_name = 'schedule' and starts_with(i.item_key, i.entity_key || '-')) -- as of_schedule; Citus takes no function of columns here
            and i.outcome is null
        returning i.data ->> 'next_check_at' as slot
    )
    select count(*) into arriving from marked where slot::timestamptz > clock_timestamp();

    select array_agg(f.job), array_agg(f.item_key)
    into numbers, items
    from prescient.future_job f
    where f.entity_name = end_checks.entity_name
        and f.entity_key = end_checks.entity_key
        and (f.job = any (others)) is not true
        and f.item_key is not null
        and not (f.entity_name = 'schedule' and starts_with(f.item_key, f.entity_key || '-'));
    -- A row may have ended while this waited for it, and be followed by another of its key. Keys that come later wait on.
    for turn in 1 .. 100 loop
        if not exists (
            select
            from prescient.future_job f
            join unnest(numbers, items) as u (number, item) on f.job = u.number and f.item_key = u.item
            where f.entity_name = end_checks.entity_name and f.entity_key = end_checks.entity_key
        ) then
            return ended + arriving;
        end if;
        for waiting in
            select f.next_check_at, f.job, f.id
            from prescient.future_job f
            join unnest(numbers, items) as u (number, item) on f.job = u.number and f.item_key = u.item
            where f.entity_name = end_checks.entity_name and f.entity_key = end_checks.entity_key
            -- As enqueue_many, so that the two never deadlock.
            order by (select j.name from prescient.job j where j.job = f.job), f.item_key
            for update of f
        loop
            if prescient.end_row(waiting.next_check_at, waiting.job, waiting.id, null, outcome) then
                ended := ended + 1;
            end if;
        end loop;
    end loop;
    perform prescient.raise_suppressed('the delete of a waiting row');
end
$$;
