-- Removes a consumer.
-- Called by jobs/event/outbox.Outbox.Forget.
delete from prescient.event_consumer
where name = $1
returning name
