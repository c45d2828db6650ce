-- Returns a trace with one more entry. It keeps the newest 20; null: none. It is in SQL, so that it
-- is a part of the statement that uses it. A text takes a third of the space of an array.
create or replace function prescient.traced(trace text, entry text)
returns text
language sql
immutable
as $$
    select case
        when entry is null then trace
        when trace is null then entry
        when octet_length(trace) < 259 then trace || chr(10) || entry
        when octet_length(trace) = 259 and strpos(trace, '"') = 0 then right(trace, -13) || chr(10) || entry -- 20 short ones
        when length(trace) - length(replace(trace, chr(10), '')) >= 19 then right(trace, -strpos(trace, chr(10))) || chr(10) || entry
        else trace || chr(10) || entry
    end
$$;
