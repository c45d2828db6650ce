-- Rule {rule}: the rows that a statement has deleted wait no longer.
create or replace function {delete}()
returns trigger
language plpgsql
security definer
{trigger_settings}
as {quote}
#variable_conflict use_column
-- What a row says: version {version}.
declare
    known {type};
    keys  text[];
    alike boolean; -- null: the statement has deleted no row
    renamed text := current_setting('prescient_rules.renamed', true); -- see rule_rename
begin
    begin
        -- As in the trigger of inserts.
        alike := (
            select {key_alike}
            from (select {key_columns} from prescient_deleted limit 1) as prescient_row
        );
        if alike is null then
            return null;
        elsif not alike then
            raise datatype_mismatch;
        end if;
        keys := (select array_agg({deleted_key}) from prescient_deleted as prescient_row);
    exception
        when others or assert_failure then -- it was renamed
            keys := (select array_agg(r.key) from prescient_deleted as prescient_row, {safe}(prescient_row.*, null) as r);
            if keys is null then -- the statement has deleted no row, and null would stand for all
                return null;
            end if;
    end;
    if starts_with(renamed, extract(epoch from statement_timestamp())::text || E'\n') then
        -- Another row may have such a key now. Its check finds out.
        keys := array(
            select k.key
            from unnest(keys) as k (key)
            where octet_length(renamed) <= 10000 and strpos(renamed, E'\n' || {name} || '/' || k.key || E'\n') = 0
        );
    end if;
    perform prescient.cancel_keys({name}, {entity}, keys, {clock});{forget_many}
    return null;
end
{quote};
