-- Ends the pauses of the refused events of consumer $1. A message that waits for its time goes on waiting. An event that
-- another forwarder has locked is left out, because that one is trying it.
-- Called by jobs/event/forward.tryNow.
update prescient.event_dead
set try_at = statement_timestamp()
where number = any(
    select d.number
    from prescient.event_dead d
    where d.consumer = $1
        and d.try_at > statement_timestamp()
        and d.refusals > 0
    for update skip locked
)
