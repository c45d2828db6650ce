-- Rule {rule}: whether an update of {clocked} may move the check of the row. It does not if the clock moves later before a
-- step is due: the check finds out. The update calls this function with the settings and the search_path of its session, so
-- each name has its schema. The trigger judges a clock that the session has set.
create or replace function {moves}(old_since timestamptz, new_since timestamptz)
returns boolean
language plpgsql
as {quote}
begin
    return (
        (old_since operator(pg_catalog.<=) new_since)
        and (new_since operator(pg_catalog.<) '{since_last}'::pg_catalog.timestamptz)
        and (old_since operator(pg_catalog.>) (pg_catalog.clock_timestamp() operator(pg_catalog.-) {first_delay}))
        and (coalesce(pg_catalog.current_setting('prescient_caller.clock', true), '') operator(pg_catalog.=) '')
    ) is not true;
end
{quote};
