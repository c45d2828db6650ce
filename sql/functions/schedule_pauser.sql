-- Returns who pauses a schedule: the actor of the caller, or its role.
-- Called by set_schedule, pause_schedule and the statements that write schedules. No statement that changes rows calls it
-- beside a column, because Citus may run the change on another server; see schedule_update.
create or replace function prescient.schedule_pauser()
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return coalesce(
        left(nullif(current_setting('prescient_caller.actor', true), ''), 500), nullif(current_setting('role'), 'none'), session_user
    );
end
$$;
revoke all on function prescient.schedule_pauser() from public;
