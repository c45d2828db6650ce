-- Rule {rule}: a row that was inserted waits for its first step.
create or replace function {insert}()
returns trigger
language plpgsql
security definer
{trigger_settings}
as {quote}
-- What a row says: version {version}.
<<here>>
declare
    new_row {type};
    clock   timestamptz := {clock};
    now     timestamptz := coalesce(clock, clock_timestamp());
    came    timestamptz := coalesce(clock, transaction_timestamp());
    key     text;
    at      timestamptz;
    is_paused boolean;
begin
    begin
        if not ({new_alike}) then
            raise datatype_mismatch;
        end if;
        new_row := row({new_columns});
        select r.key, case when r.about and not r.done and r.first is not null then greatest({first}, timestamptz '{since_first}') end, r.paused
        into key, at, is_paused
        from {row}(new_row, now) as r;
    exception
        when others or assert_failure then
            select r.key, case when r.about and not r.done and r.first is not null then greatest({first}, timestamptz '{since_first}') end, r.paused
            into key, at, is_paused
            from {safe}(new, now) as r;
    end;
    if {marks} or is_paused then
        perform prescient.rule_mark({name}, array[key], came, {marks}, nullif(is_paused, false));
    end if;
    if at is not null then
        perform prescient.rule_wait({name}, {entity}, key, at, clock => clock, came => came, fresh => true);
    end if;
    return null;
end
{quote};
