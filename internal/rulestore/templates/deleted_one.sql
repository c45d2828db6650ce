-- Rule {rule}: a row that was deleted waits no longer.
create or replace function {delete}()
returns trigger
language plpgsql
security definer
{trigger_settings}
as {quote}
-- What a row says: version {version}.
declare
    known {type};
    key   text;
begin
    begin
        if not ({old_key_alike}) then
            raise datatype_mismatch;
        end if;
        key := {old_key};
    exception
        when others or assert_failure then -- it was renamed
            key := (select r.key from {safe}(old, null) as r);
    end;
    perform prescient.cancel_keys({name}, {entity}, array[key], {clock});{forget_one}
    return null;
end
{quote};
