-- A trace with one more entry, of which the newest 20 are kept; null: none. In SQL, so that it is a part of the statement
-- that uses it. A text is a third of an array of them.
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
