-- Returns a rule as it is now, and locks it for the rest of the transaction: an apply, which changes
-- the rule, waits for the checks that have read it. Checks do not wait for each other. Returns no row
-- if there is no such rule.
create or replace function prescient.lock_rule(rule_name text)
returns table (state text, definition json)
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    select r.state, r.definition
    from prescient.rule r
    where r.name = rule_name
    for share
$$;
revoke all on function prescient.lock_rule(text) from public;
