-- Returns the messages of consumer $1 about the subjects ($2) that wait for their time, each with that time. The caller
-- reads their data, because PostgreSQL takes no text out of JSON that has a text such as \u0000.
-- Called by jobs/event/forward.batch.endsLater.
select d.id, d.source, d.type, coalesce(d.subject, ''), d.time, d.published_at, d.data, d.send_at
from prescient.event_dead d
where d.consumer = $1
    and d.subject = any ($2::text[])
    and d.dead_at is null
    and d.refusals = 0
    and d.send_at is not null
