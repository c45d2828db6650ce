-- Locks the waiting row of a key, and returns it; null: no row waits. The row may end while this waits for it, and be
-- followed by another of its key, which the statement that waited does not see. So it looks again.
-- Called by end_check, push_back_row and reschedule.
create or replace function prescient.lock_check(number bigint, entity_name text, entity_key text, item_key text)
returns prescient.future_job
language plpgsql
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    waiting prescient.future_job;
begin
    -- After a hundred turns the cause is a trigger.
    for turn in 1 .. 100 loop
        select f.*
        into waiting
        from prescient.future_job f
        where f.entity_name = lock_check.entity_name
            and f.entity_key = lock_check.entity_key
            and f.job = lock_check.number
            and f.item_key = lock_check.item_key
        for update;
        if found then
            return waiting;
        end if;
        if not exists (
            select
            from prescient.future_job f
            where f.entity_name = lock_check.entity_name
                and f.entity_key = lock_check.entity_key
                and f.job = lock_check.number
                and f.item_key = lock_check.item_key
        ) then
            return null;
        end if;
    end loop;
    perform prescient.raise_suppressed('the lock of the waiting row');
end
$$;
