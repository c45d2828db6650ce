-- Pauses a schedule, or ends its pause: the next instant is then the first one after the call. Returns whether that
-- changed anything.
create or replace function prescient.pause_schedule(id text, paused boolean default true)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set row_security = off
as $$
#variable_conflict use_column
declare
    at timestamptz := statement_timestamp();
    pauser text := prescient.schedule_pauser();
begin
    update prescient.schedule s
    set paused = pause_schedule.paused,
        paused_at = case when pause_schedule.paused then at end,
        paused_by = case when pause_schedule.paused then pauser end,
        version = s.version + 1,
        updated_at = statement_timestamp()
    where s.id = pause_schedule.id and s.paused <> pause_schedule.paused;
    if not found then
        if not exists (select from prescient.schedule s where s.id = pause_schedule.id) then
            raise exception 'there is no schedule %', quote_literal(pause_schedule.id) using errcode = 'no_data_found';
        end if;
        return false;
    end if;
    perform prescient.wait_for_schedule(pause_schedule.id, pause_schedule.paused);
    return true;
end
$$;
revoke all on function prescient.pause_schedule(text, boolean) from public;
