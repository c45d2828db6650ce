-- Rule {rule}: what a row of its table says. The server understands the names in the body now and not when a trigger
-- calls it. So the owner of the table cannot give them another meaning, and let the trigger run code with its rights.
-- As a view, it depends on the columns that it reads.
do {quote}
begin
    -- A table that had the name before keeps triggers that call the functions.
    if exists (
        select
        from pg_trigger t
        where t.tgfoid in (to_regprocedure('{insert}()'), to_regprocedure('{update}()'), to_regprocedure('{delete}()'))
            and t.tgparentid = 0
            and t.tgrelid <> {literal}::regclass
    ) then
        drop function if exists {insert}, {update}, {delete} cascade;
    end if;
    drop function if exists {row}, {safe};
    drop domain if exists {type};
end
{quote};
{create_type}create function {row}(prescient_row {relation}, prescient_now timestamptz)
returns table (key text, since timestamptz, about boolean, done boolean, first timestamptz, coming timestamptz[], asks text, looks text, ends timestamptz)
language sql
stable
begin atomic
    select
        {key}::text,
        prescient_since.prescient_at,
        {about} and octet_length({key}::text) between 1 and 500,
        {done},
        least({steps}),
        array[{steps}],
        {asks},
        {looks},
        {ends}
    -- Offset 0 lets the server compute each value once, and not once for each use of it.
    from (select {columns}) as {alias}
    cross join lateral (select {since} as prescient_at offset 0) as prescient_since
    cross join lateral (select {coming} offset 0) as prescient_coming;
end;
create function {safe}(prescient_row {relation}, prescient_now timestamptz)
returns table (key text, since timestamptz, about boolean, done boolean, first timestamptz, coming timestamptz[], asks text, looks text, ends timestamptz)
language plpgsql
stable
{settings}
as {quote}
declare
    text_of_key text;
begin
    return query select r.* from {row}(prescient_row, prescient_now) as r;
exception
    when others or assert_failure then
        -- The row waits for the next slot, whose check fails with the reason. The key may have another name by now.
        execute (
            select format('select ($1).%I::text', a.attname)
            from pg_type t
            join pg_attribute a on a.attrelid = t.typrelid
            where t.oid = pg_typeof(prescient_row) and a.attnum = {number}
        ) into text_of_key using prescient_row;
        return query
        select
            text_of_key, timestamptz '-infinity', octet_length(text_of_key) between 1 and 500, false,
            timestamptz '-infinity', array[timestamptz '-infinity'], null::text, null::text, null::timestamptz;
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
