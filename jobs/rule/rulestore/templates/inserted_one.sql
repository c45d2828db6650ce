-- Rule {rule}: a row that was inserted waits for its first step.
create or replace function {insert}()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set standard_conforming_strings = on
as {quote}
#variable_conflict use_column
declare
    clock timestamptz := {clock};
begin
    perform prescient.rule_wait({name}, {entity}, {key}::text, {since} + {first}, clock => clock)
    from (select new.*) as prescient_inserted
    where {about} and {done} is not true;
    return null;
end
{quote};
