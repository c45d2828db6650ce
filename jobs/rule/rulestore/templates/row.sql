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
    drop function if exists {row};
    drop domain if exists {type};
end
{quote};
{create_type}create function {row}(prescient_row {relation})
returns table (key text, since timestamptz, counts boolean, done_at timestamptz)
language sql
stable
begin atomic
    select {key}::text, {since}, {about} and {done} is not true, {done_at}
    from (select {columns}) as prescient_columns;
end;
do {quote}
declare
    problem text := prescient.refuse_routine('{row}'::regproc::regprocedure, {caller});
begin
    if problem is not null then
        raise exception '%', problem using errcode = 'object_not_in_prerequisite_state';
    end if;
end
{quote};
