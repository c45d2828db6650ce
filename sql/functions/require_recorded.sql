-- Fails if one of the rows (ids) is still in its slot (at) although its outcome was recorded: a trigger suppresses the
-- change, and the row would be left behind when the slot is closed. Else it returns true.
-- Called by everything that records outcomes, if it has changed fewer rows than it was given.
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
        perform prescient.raise_suppressed('the change of a row whose outcome was recorded');
    end if;
    return true;
end
$$;
