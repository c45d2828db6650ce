-- Returns a journal with one more entry. It keeps the newest 20; null: none. It is in SQL, so that it
-- is a part of the statement that uses it. A text takes a third of the space of an array.
create or replace function prescient.journal_add(journal text, entry text)
returns text
language sql
immutable
as $$
    select case
        when entry is null then journal
        when journal is null then entry
        when octet_length(journal) < 259 then journal || chr(10) || entry
        when octet_length(journal) = 259 and strpos(journal, '"') = 0 then right(journal, -13) || chr(10) || entry -- 20 short ones
        when length(journal) - length(replace(journal, chr(10), '')) >= 19 then right(journal, -strpos(journal, chr(10))) || chr(10) || entry
        else journal || chr(10) || entry
    end
$$;
