-- Rule {rule}: another table may have taken the name, or a column another type, before these statements had their lock.
do {quote}
begin
    if exists (
        select
        from pg_trigger t
        where {own_trigger} and t.tgrelid <> {literal}::regclass
    ) then
        raise exception 'another table has taken the name of table %: try again', {literal}
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    if exists (
        select
        from pg_type t
        join pg_attribute c on c.attrelid = t.typrelid
        where t.oid = '{type}'::regtype
            and not exists (
                select
                from pg_attribute a
                where a.attrelid = {literal}::regclass and a.attname = c.attname and not a.attisdropped and a.atttypid = c.atttypid
            )
    ) then
        raise exception 'a column of table % has another type than these statements were made for: make them again', {literal}
            using errcode = 'object_not_in_prerequisite_state';
    end if;
end
{quote};
