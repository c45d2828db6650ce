-- Gives back the lease of consumer $1, if a forwarder (token $2) has it.
-- Called by jobs/event/forward.sender.release.
update prescient.event_consumer c
set token = null, allocated_until = null
where c.name = $1 and c.token = $2
