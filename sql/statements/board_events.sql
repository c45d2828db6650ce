-- The newest $1 events in the outbox before ($2, $3), or of all where these are null; of their data the first 2,000 letters.
select mark, position, id, source, type, coalesce(subject, '') as subject, time, written_at, coalesce(left(data::text, 2000), '') as data
from prescient.event_outbox
where $2::text is null or (mark, position) < ($2::text::xid8, $3)
order by mark desc, position desc
limit $1
