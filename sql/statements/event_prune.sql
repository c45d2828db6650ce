-- Deletes the oldest events. See the function prune_events.
-- Called by jobs/event/outbox.Outbox.prune.
select prescient.prune_events($1, $2, $3)
