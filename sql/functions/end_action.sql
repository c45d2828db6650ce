-- Records how a running action of the caller's role has ended. Returns whether there was such an
-- action.
create or replace function prescient.end_action(id bigint, outcome text, result text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
as $$
declare
    -- As in the default of by_role: current_user is the owner here.
    caller text := coalesce(nullif(current_setting('role'), 'none'), session_user);
begin
    update prescient.action a
    set outcome = end_action.outcome,
        result = end_action.result,
        finished_at = statement_timestamp()
    where a.id = end_action.id
        and a.outcome = 'running'
        and a.by_role = caller;
    return found;
end
$$;
revoke all on function prescient.end_action(bigint, text, text) from public;
