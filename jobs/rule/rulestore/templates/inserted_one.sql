-- Rule {rule}: a row that was inserted waits for its first step.
create or replace function {insert}()
returns trigger
language plpgsql
security definer
{settings}
as {quote}
-- What a row says: version {version}.
declare
    new_row {type};
    clock timestamptz := {clock};
begin
    {take_new}
    perform prescient.rule_wait({name}, {entity}, r.key, r.since + {first}, clock => clock)
    from {row}(new_row) as r
    where r.counts and (r.done_at <= coalesce(clock, clock_timestamp())) is not true;
    return null;
end
{quote};
