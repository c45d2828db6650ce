-- Rule {rule}: what a row of its table says. The server understands the names in the body now and not when a trigger
-- calls it. So the owner of the table cannot give them another meaning, and let the trigger run code with its rights.
create function {row}(prescient_row {type}, prescient_now timestamptz)
returns table (key text, since timestamptz, about boolean, done boolean, first timestamptz, coming timestamptz[], asks text, looks text, enters text, ends timestamptz, paused boolean)
language sql
stable
begin atomic
    select
        {key},
        prescient_since.prescient_at,
        {about} and octet_length({key}) between 1 and 500,
        {done},
        {begins},
        array[{steps}],
        {asks},
        {looks},
        {enters},
        {ends},
        {paused}
    -- Offset 0 lets the server compute each value once, and not once for each use of it.
    from (select {columns}) as {alias}
    cross join lateral (select {since} as prescient_at offset 0) as prescient_since
    cross join lateral (select {coming} offset 0) as prescient_coming;
end;
