-- Of a check that asked for another: its slot in seconds since 1970, the place of its runner among those of the slot, how late it
-- was in milliseconds, and how long it took in microseconds. Null for a line of a trace that is none. The short form is base64 of 9 bytes:
-- 4 are the slot, one the place, two the lateness, two the duration, of both 4 bits for how many bits were left out and 12 for the
-- others. The long form is that of trace_entry, and has no place but the name.
create or replace function prescient.trace_check(line text)
returns bigint[]
language sql
immutable
parallel safe
as $$
    select case
        when line like '["next",%' then array[(line::jsonb ->> 1)::bigint, null, (line::jsonb ->> 3)::bigint, (line::jsonb ->> 4)::bigint]
        when line like '[%' or line like '{%' then null
        else (
            select array[
                ((get_byte(b, 0)::bigint * 256 + get_byte(b, 1)) * 256 + get_byte(b, 2)) * 256 + get_byte(b, 3),
                get_byte(b, 4),
                (get_byte(b, 5) % 16 * 256 + get_byte(b, 6))::bigint << get_byte(b, 5) / 16,
                (get_byte(b, 7) % 16 * 256 + get_byte(b, 8))::bigint << get_byte(b, 7) / 16
            ]
            from decode(line, 'base64') as b
        )
    end
$$;
