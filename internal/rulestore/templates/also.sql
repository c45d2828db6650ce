-- Rule {rule}: rows that it looks up have come, changed or gone. Its rows are looked at in the next slot. If the column has
-- another name or type by now, nothing is done: the query of the checks fails, and says so.
create or replace function {also}()
returns trigger
language plpgsql
security definer
{trigger_settings}
as {quote}
#variable_conflict use_column
declare
    keys  text[];
    alike boolean; -- null: the statement has written no row
begin
    begin
        -- First, as in the trigger of inserts.
        if tg_op = 'DELETE' then
            alike := (select {also_alike} from {deleted} limit 1);
        else
            alike := (select {also_alike} from {inserted} limit 1);
        end if;
        if not alike then
            raise datatype_mismatch;
        elsif tg_op = 'INSERT' then
            keys := array(select distinct {also_key} from {inserted});
        elsif tg_op = 'DELETE' then
            keys := array(select distinct {also_key} from {deleted});
        elsif tg_op = 'UPDATE' then
            keys := array(select {also_key} from {inserted} union select {also_key} from {deleted});
        end if;
    exception
        when others or assert_failure then
            return null;
    end;
    if cardinality(keys) > 0 then
        perform prescient.rule_look({name}, {entity}, keys, {starts}, {clock});
    end if;
    return null;
end
{quote};
