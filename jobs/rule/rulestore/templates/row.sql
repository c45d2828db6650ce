-- Rule {rule}: what a row of its table says. The server understands the names in the body now and not when a trigger
-- calls it. So the owner of the table cannot give them another meaning, and let the trigger run code with its rights.
-- As a view, it depends on the columns that it reads.
create or replace function {row}(prescient_row {relation})
returns table (key text, since timestamptz, counts boolean)
language sql
stable
begin atomic
    select {key}::text, {since}, {about} and {done} is not true
    from (select {columns}) as prescient_columns;
end;
