-- Payloads as the database writes them, which tells whether two are the same.
select coalesce(nullif(payload, '')::jsonb::text, '')
from unnest($1::text[]) with ordinality as g (payload, nth)
order by nth
