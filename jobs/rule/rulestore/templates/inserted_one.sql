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
    came  timestamptz := coalesce(clock, transaction_timestamp());
begin
    {take_new}
    perform prescient.rule_wait({name}, {entity}, r.key, greatest(r.first, timestamptz '{since_first}'), clock => clock, came => came)
    from {safe}(new_row, coalesce(clock, clock_timestamp())) as r
    where r.about and not r.done and r.first is not null;
    return null;
end
{quote};
