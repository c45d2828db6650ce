-- Ends the pauses of the refused events of consumer $1. A message that waits for its time goes on waiting.
-- Called by jobs/event/forward.tryNow.
update prescient.event_dead
set try_at = statement_timestamp()
where consumer = $1
    and try_at > statement_timestamp()
    and refusals > 0
