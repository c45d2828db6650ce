-- Records how a running action of the caller's role has ended. Returns whether there was such an
-- action.
create or replace function prescient.end_action(id bigint, outcome text, result text)
returns boolean
language sql
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
as $$
    with ended as (
        update prescient.action a
        set outcome = end_action.outcome,
            result = end_action.result,
            ended_at = statement_timestamp()
        where a.id = end_action.id
            and a.outcome = 'running'
            -- As in the default of the column: current_user is the owner here.
            and a.by_role = coalesce(nullif(current_setting('role'), 'none'), session_user)
        returning 1
    )
    select exists (select from ended)
$$;
revoke all on function prescient.end_action(bigint, text, text) from public;
