-- Moves an entry that was made for slot 'epoch' to another slot. It depends on nothing else, so it
-- may be a part of any statement.
create or replace function prescient.journal_in(entry text, slot timestamptz)
returns text
language sql
immutable
parallel safe
as $$
    select replace(entry, '"slot":0', '"slot":' || extract(epoch from slot - timestamptz '1970-01-01 00:00:00+00')::bigint)
$$;
