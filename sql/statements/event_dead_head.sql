-- Lets the first waiting event of each of the subjects ($2) of consumer $1 be tried now, and the waiting
-- events without a subject.
-- Called by jobs/event/forward.sender.settleRetry.
update prescient.event_dead d
set try_at = statement_timestamp()
where d.consumer = $1
    and d.dead_at is null
    and d.try_at is null
    and (
        d.subject is null
        or d.subject = any ($2::text[])
            and not exists (
                select
                from prescient.event_dead b
                where b.consumer = d.consumer and b.subject = d.subject and b.number < d.number and b.dead_at is null
                    and (b.send_at is null or b.refusals > 0)
            )
    )
