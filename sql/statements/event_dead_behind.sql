-- Makes dead letters of the events of consumer $1 that wait behind a dead letter of one of the subjects ($2).
-- Called by jobs/event/forward.sender.refuseAgain.
update prescient.event_dead d
set dead_at = statement_timestamp(), try_at = null
where d.consumer = $1 and d.subject = any ($2::text[]) and d.dead_at is null and (d.send_at is null or d.refusals > 0)
