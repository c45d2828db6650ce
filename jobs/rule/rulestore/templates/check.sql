-- Rule {rule}: another table may have taken the name while these statements waited for a lock of it.
do {quote}
begin
    if exists (
        select
        from pg_trigger t
        join pg_class c on c.oid = t.tgrelid
        join pg_proc p on p.oid = '{row}'::regproc
        where t.tgfoid in (to_regprocedure('{insert}()'), to_regprocedure('{update}()'), to_regprocedure('{delete}()'))
            and t.tgparentid = 0
            and (c.reltype <> p.proargtypes[0] or (select y.typbasetype from pg_type y where y.oid = to_regtype('{type}')) <> c.reltype)
    ) then
        raise exception 'another table has taken the name of table %: try again', {literal}
            using errcode = 'object_not_in_prerequisite_state';
    end if;
end
{quote};
