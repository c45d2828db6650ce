-- Rule {rule}: the columns that it reads, as a type of their own. A function with the row type of the table would be in the
-- way of alter table, even of a column that the rule does not read.
do {quote}
begin
    -- A table that had the name before keeps triggers that call the functions.
    if exists (
        select
        from pg_trigger t
        where {own_trigger} and t.tgrelid <> {literal}::regclass
    ) then
        drop function if exists {insert}, {update}, {delete}, {truncate} cascade;
    end if;
    drop function if exists {row}, {safe};
    drop type if exists {type};
end
{quote};
create type {type} as ({declared});{own_type}
