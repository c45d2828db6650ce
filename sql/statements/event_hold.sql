-- Takes or renews the lease of consumer $1 for a forwarder (token $2) for $3 seconds, and returns the position of
-- the consumer, and whether its last try failed. It returns no row while another forwarder has the lease.
-- Called by jobs/event/forward.sender.hold.
update prescient.event_consumer c
set token = $2,
    allocated_until = statement_timestamp() + $3::double precision * interval '1 second'
where c.name = $1
    and (c.token is null or c.token = $2 or c.allocated_until is null or c.allocated_until < statement_timestamp())
returning c.mark, c.position, c.failing_since is not null
