-- Returns a rule as it is now, and locks it for the rest of the transaction. An apply that changes the rule, or a remove,
-- waits for the checks that have read it. Checks do not wait for each other, and the walk of an apply does not wait for
-- them. A check that comes later waits for the change, because there may be checks at each moment: with locks of the row,
-- the change would wait for all of them. Returns no row if there is no such rule.
-- width: that of slots, in seconds. A query that read it beside this function would lock the rule on another server of
-- Citus.
-- horizon: the transaction number with which a runner opened the slot, if transactions are open that began before.
create or replace function prescient.lock_rule(rule_name text, slot timestamptz)
returns table (state text, definition json, created_at timestamptz, width bigint, horizon xid8)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
as $$
declare
    ended xid8;
begin
    perform pg_advisory_xact_lock_shared(hashtextextended('prescient.rule ' || rule_name, 0));
    ended := prescient.oldest_active_xid();
    return query
    select
        r.state,
        r.definition,
        r.created_at,
        (select extract(epoch from s.width)::bigint from prescient.setting s),
        (select o.horizon from prescient.slot_run o where o.slot = lock_rule.slot and ended < o.horizon)
    from prescient.rule r
    where r.name = rule_name;
end
$$;
revoke all on function prescient.lock_rule(text, timestamptz) from public;
