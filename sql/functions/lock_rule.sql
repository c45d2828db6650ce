-- Returns a rule as it is now, and locks it for the rest of the transaction: an apply that changes the rule, or a remove,
-- waits for the checks that have read it, because it locks the row for update. Checks do not wait for each other, and
-- neither does the walk of an apply wait for them, which changes other columns of the row. Returns no row if there is no
-- such rule.
create or replace function prescient.lock_rule(rule_name text)
returns table (state text, definition json)
language sql
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
as $$
    select r.state, r.definition
    from prescient.rule r
    where r.name = rule_name
    for key share
$$;
revoke all on function prescient.lock_rule(text) from public;
