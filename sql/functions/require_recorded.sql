-- Fails if one of the rows (ids) is still in its slot (at) although a statement has ended or moved it:
-- a trigger suppresses the change. A run would leave the row behind when it closes the slot.
-- Otherwise it returns true.
-- Called by everything that ends or records rows, if it has changed fewer rows than it was given.
create or replace function prescient.require_recorded(at timestamptz, numbers bigint[], first_id bigint, last_id bigint, ids bigint[])
returns boolean
language plpgsql
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set jit = off
as $$
begin
    if exists (
        select
        from prescient.future_job f
        where f.next_check_at = at
            and f.job = any (numbers)
            and f.id between first_id and last_id
            and f.id + 0 = any (ids)
    ) then
        perform prescient.raise_suppressed('the end or the move of a row');
    end if;
    return true;
end
$$;
