-- Returns the journal entry of a check that asked for another one: its slot in seconds since 1970,
-- the position of its runner in the names of the slot, its lateness in milliseconds, and its run
-- time in microseconds. Null for a line that is no such entry.
-- The short form is base64 of 9 bytes: 4 for the slot, one for the position, two for the lateness,
-- two for the run time. Of the last two, 4 bits tell how many bits were left out, and 12 are the
-- others. The long form is that of journal_entry, which has the name instead of the position.
create or replace function prescient.journal_check(line text)
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
