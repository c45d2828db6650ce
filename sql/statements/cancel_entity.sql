-- Cancels all waiting checks of an entity. See the function cancel_entity.
-- Called by jobs.Client.CancelEntity.
select prescient.cancel_entity($1, $2)
