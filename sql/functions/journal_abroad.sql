-- Returns a journal as it is told in a store with another ledger.
create or replace function prescient.journal_abroad(journal text)
returns text
language sql
stable
as $$
    select string_agg(prescient.journal_value(line)::text, chr(10) order by nth)
    from unnest(string_to_array(journal, chr(10))) with ordinality as t (line, nth)
$$;
