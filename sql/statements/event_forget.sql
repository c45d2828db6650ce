-- Removes a consumer, with the events that its destination has refused.
-- Called by jobs/event/outbox.Outbox.ForgetTx.
with refused as (
    delete from prescient.event_dead
    where consumer = $1
)
delete from prescient.event_consumer
where name = $1
returning name
