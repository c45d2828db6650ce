-- Deletes the events that the destination of a consumer has refused, after event_forget: a forwarder that was recording
-- has ended then, and this statement sees what it has written.
-- Called by jobs/event/outbox.Outbox.ForgetTx.
delete from prescient.event_dead
where consumer = $1
