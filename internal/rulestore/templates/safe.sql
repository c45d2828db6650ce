-- Rule {rule}: the same for a row whose columns have other names by now. It never fails.
-- A column counts if it has the type that it had: otherwise the owner of the table could let a cast run code here.
create function {safe}(prescient_row {any_row}, prescient_now timestamptz)
returns table (key text, since timestamptz, about boolean, done boolean, first timestamptz, coming timestamptz[], asks text, looks text, enters text, ends timestamptz, paused boolean)
language plpgsql
stable
{settings}
as {quote}
declare
    relation    oid; -- the table of the rule: its partitions, and a table of which it is one, have numbers of their own
    numbers     integer[]; -- of the columns that the rule reads, in the order of its type
    known       {type};
    reads       text;
    reads_key   text;
    text_of_key text;
begin
    select coalesce((
        select g.tgrelid
        from pg_partition_ancestors(t.typrelid) as p
        join pg_trigger g on g.tgrelid = p.relid
        where {own_trigger}
        limit 1
    ), t.typrelid)
    into relation
    from pg_type t
    where t.oid = pg_typeof(prescient_row);
    -- The trigger of updates compares all of them. In a table that was restored from a dump it has the numbers of now.
    numbers := array(
        select distinct d.refobjsubid
        from pg_trigger g
        join pg_depend d on d.classid = 'pg_trigger'::regclass and d.objid = g.oid
            and d.refclassid = 'pg_class'::regclass and d.refobjid = g.tgrelid and d.refobjsubid > 0
        where g.tgrelid = relation and g.tgparentid = 0 and g.tgfoid = to_regprocedure('{update}()')
        order by d.refobjsubid
    );
    if cardinality(numbers) <> cardinality('{numbers}'::integer[]) then -- the trigger is gone
        numbers := '{numbers}';
    end if;
    select case when count(*) = count(a.attname) then string_agg('($1).' || quote_ident(a.attname), ', ' order by c.attnum) end into reads
    from pg_type t
    join pg_attribute c on c.attrelid = t.typrelid
    left join lateral (
        select a.attname
        from pg_attribute a
        where a.attrelid = relation and not a.attisdropped and a.atttypid = c.atttypid
            and (a.attname = c.attname or a.attnum = numbers[c.attnum])
        order by a.attname = c.attname desc
        limit 1
    ) as a on true
    where t.oid = pg_typeof(known);
    begin
        if reads is not null then
            execute 'select ' || reads into known using prescient_row;
            text_of_key := {known_key};
            return query select r.* from {row}(known, prescient_now) as r;
            return;
        end if;
    exception
        when others or assert_failure then
            null;
    end;
    -- The row waits for the next slot, whose check fails with the reason.
    select case when count(*) = count(a.attname) then 'select ' || string_agg(format({key_part}, a.attname), ' || ''/'' || ' order by k.part) end
    into reads_key
    from (values {key_names}) as k (part, name, nth)
    left join lateral (
        select c.attname
        from pg_attribute c
        where c.attrelid = relation and not c.attisdropped and (c.attname = k.name or c.attnum = numbers[k.nth])
        order by c.attname = k.name desc
        limit 1
    ) as a on true;
    if reads is null and reads_key is not null then
        execute reads_key into text_of_key using prescient_row;
    end if;
    return query
    select
        text_of_key, timestamptz '-infinity', octet_length(text_of_key) between 1 and 500, false,
        timestamptz '-infinity', array[timestamptz '-infinity'], null::text, null::text, null::text, null::timestamptz, null::boolean;
end
{quote};
do {quote}
declare
    problem text := prescient.refuse_routine('{row}'::regproc::regprocedure, {caller});
begin
    if problem is not null then
        raise exception '%', problem using errcode = 'object_not_in_prerequisite_state';
    end if;
end
{quote};
