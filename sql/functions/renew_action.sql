-- Says that a running action of the caller's role goes on. Returns whether there is such an action.
create or replace function prescient.renew_action(id bigint)
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
    set seen_at = statement_timestamp()
    where a.id = renew_action.id
        and a.outcome = 'running'
        and a.by_role = caller;
    return found;
end
$$;
revoke all on function prescient.renew_action(bigint) from public;
