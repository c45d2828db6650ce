-- Removes the dead letters ($1) that were sent again.
-- Called by jobs/event/deadletter.List.settle.
delete from prescient.event_dead
where number = any ($1::bigint[])
