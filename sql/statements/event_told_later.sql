-- Returns when the last message of consumer $1 about each problem ($3) is sent that still waits for its time. $2 has the
-- subjects of the messages.
-- Called by jobs/event/forward.batch.endsLater.
select d.data ->> 'about', max(d.send_at)
from prescient.event_dead d
where d.consumer = $1
    and d.subject = any ($2::text[])
    and d.dead_at is null
    and d.refusals = 0
    and d.send_at is not null
    and d.data ->> 'about' = any ($3::text[])
group by 1
