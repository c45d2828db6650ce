-- Removes refused events ($1) that their destination has accepted after all.
-- Called by jobs/event/forward.sender.settleRetry.
delete from prescient.event_dead
where number = any ($1::bigint[])
