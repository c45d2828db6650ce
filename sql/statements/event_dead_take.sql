-- event_dead_list for letters that are sent again: it locks them, so that no run holds an event back
-- behind one that is just being sent.
-- Called by jobs/event/deadletter.sending.page.
select d.number, d.id, d.source, d.type, coalesce(d.subject, ''), d.time, d.generated_at, d.data::text, d.refusals, coalesce(d.error, ''), d.refused_at, d.dead_at
from prescient.event_dead d
where d.dead_at is not null
    and d.number > $1
    and ($3::text is null or d.subject = $3)
    and ($4::text is null or d.id = $4)
    and ($5::timestamptz is null or d.dead_at < $5)
order by d.number
limit $2
for update
