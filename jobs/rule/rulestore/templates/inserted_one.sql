-- Rule {rule}: a row that was inserted waits for its first step.
create or replace function {insert}()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set standard_conforming_strings = on
as {quote}
-- What a row says: version {version}.
declare
    new_row {type};
    clock timestamptz := {clock};
begin
    {take_new}
    perform prescient.rule_wait({name}, {entity}, r.key, r.since + {first}, clock => clock)
    from {row}(new_row) as r
    where r.counts;
    return null;
end
{quote};
