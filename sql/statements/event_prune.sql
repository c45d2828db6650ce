-- Deletes the oldest events, see prune_events.
select prescient.prune_events($1, $2, $3)
