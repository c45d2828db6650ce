-- Removes a consumer.
-- Called by jobs/event/outbox.Outbox.ForgetTx.
delete from prescient.event_consumer
where name = $1
returning name
