-- Deletes a schedule. Nothing of it is published after the transaction has committed. Returns whether there was one.
create or replace function prescient.drop_schedule(id text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set row_security = off
as $$
#variable_conflict use_column
begin
    -- First, as every change of a schedule does, and before the row that a run may hold.
    perform from prescient.schedule s where s.id = drop_schedule.id for update;
    if not found then
        return false;
    end if;
    perform prescient.cancel('schedule', 'schedule', drop_schedule.id);
    delete from prescient.schedule s where s.id = drop_schedule.id;
    delete from prescient.schedule_state d where d.id = drop_schedule.id;
    return true;
end
$$;
revoke all on function prescient.drop_schedule(text) from public;
