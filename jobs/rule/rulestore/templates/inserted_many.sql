-- Rule {rule}: the rows that a statement has inserted wait for their first step.
create or replace function {insert}()
returns trigger
language plpgsql
security definer
{settings}
as {quote}
-- What a row says: version {version}.
declare
    clock         timestamptz := {clock};
    prescient_now timestamptz := coalesce(clock, clock_timestamp()); -- no column of the table has the name
    keys          text[];
    ats           timestamptz[];
    n             integer;
begin
    select array_agg(r.key), array_agg(r.since + {first})
    into keys, ats
    from prescient_inserted as prescient_row, {row}(prescient_row.*) as r
    where r.counts and (r.done_at <= prescient_now) is not true;
    n := coalesce(cardinality(keys), 0);
    if n = 1 then
        perform prescient.rule_wait({name}, {entity}, keys[1], ats[1], clock => clock);
    elsif n > 1 then
        perform prescient.rule_wait_many({name}, {entity}, keys, ats, clock);
    end if;
    return null;
end
{quote};
