-- Reports whether a forwarder has something to send for consumer $1: events after its position, and refused ones
-- that are to be tried again. $2: see event_dead_due.
-- Called by jobs/event/forward.sender.look.
select
    exists (select from prescient.event_outbox o where (o.mark, o.position) > (c.mark, c.position)),
    exists ( -- as event_dead_due
        select
        from prescient.event_dead d
        where d.consumer = c.name
            and d.try_at <= clock_timestamp()
            and (
                d.send_at is null
                or d.refusals > 0
                or not exists (
                    select
                    from prescient.event_dead b
                    where b.consumer = d.consumer and b.subject = d.subject and b.number < d.number
                        and case when b.dead_at is null then b.refusals > 0 else not $2::boolean end
                )
            )
    )
from prescient.event_consumer c
where c.name = $1
