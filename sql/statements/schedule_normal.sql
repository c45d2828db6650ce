-- Returns payloads in the form in which the database writes them, to compare them.
-- Called by jobs/schedule.Store.normalize.
select coalesce(nullif(payload, '')::jsonb::text, '')
from unnest($1::text[]) with ordinality as g (payload, nth)
order by nth
