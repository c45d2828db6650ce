-- Reports whether a forwarder has something to send for consumer $1: events after its position, and refused ones
-- that are to be tried again.
-- Called by jobs/event/forward.sender.look.
select
    exists (select from prescient.event_outbox o where (o.mark, o.position) > (c.mark, c.position)),
    exists (select from prescient.event_dead d where d.consumer = c.name and d.try_at <= clock_timestamp())
from prescient.event_consumer c
where c.name = $1
