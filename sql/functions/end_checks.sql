-- Ends waiting rows by key and puts them into history. A null job_exec takes every job of the
-- entity but "schedule" and those of rules, which keep their rows in step with a table themselves; a
-- null item_key takes every item.
-- Anonymous rows are never found. Rows on their way from another store end in the same way when
-- they arrive. number: the job, if its name may not have committed yet.
create or replace function prescient.end_checks(
    outcome     text,
    entity_name text,
    entity_key  text,
    job_exec    text,
    item_key    text,
    number      bigint default null
)
returns bigint
language plpgsql
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    waiting  record;
    ended    bigint := 0;
    arriving bigint := 0;
    entry    text := prescient.journal_entry(outcome, timestamptz 'epoch');
    others   bigint[]; -- the jobs whose rows a call without a job leaves
begin
    perform prescient.require_rights(end_checks.job_exec);
    if end_checks.job_exec is null and end_checks.number is null then
        -- By their names, because a name may have no row in table job.
        others := array(
            select prescient.find_job(o.name)
            from (select 'schedule' as name union all select r.name from prescient.rule r) as o
        );
    end if;
    -- First, because settle_rows has locked the copies, and this waits for it. A copy whose slot has begun does not
    -- count: its row may never have been released, and have been checked in its own store. Copies have names, so none
    -- is of a job whose name has not committed.
    if end_checks.job_exec is not null or end_checks.number is null then
        with marked as (
            update prescient.transfer_in i
            set outcome = end_checks.outcome,
                told = entry
            where i.entity_name = end_checks.entity_name
                and i.entity_key = end_checks.entity_key
                and case
                    when end_checks.job_exec is null then i.job_exec <> 'schedule'
                        and not exists (select from prescient.rule r where r.name = i.job_exec)
                    else i.job_exec = end_checks.job_exec
                end
                and (end_checks.item_key is null or i.item_key = end_checks.item_key)
                and i.item_key is not null
                and i.outcome is null
            returning i.data ->> 'next_check_at' as slot
        )
        select count(*) into arriving from marked where slot::timestamptz > clock_timestamp();
    end if;

    for waiting in
        select f.next_check_at, f.job, f.id
        from prescient.future_job f
        where f.entity_name = end_checks.entity_name
            and f.entity_key = end_checks.entity_key
            and case
                when end_checks.number is not null then f.job = end_checks.number
                when end_checks.job_exec is null then (f.job = any (others)) is not true
                else f.job = (select prescient.find_job(end_checks.job_exec))
            end
            and (end_checks.item_key is null or f.item_key = end_checks.item_key)
            and f.item_key is not null
        -- As enqueue_many, so that the two never deadlock.
        order by (select j.name from prescient.job j where j.job = f.job), f.item_key
        for update
    loop
        if prescient.end_row(waiting.next_check_at, waiting.job, waiting.id, job_exec, outcome) then
            ended := ended + 1;
        end if;
    end loop;
    return ended + arriving;
end
$$;
