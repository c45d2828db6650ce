-- Counts one more refusal of dead letters ($1), with the errors ($2).
-- Called by jobs/event/deadletter.List.settle.
update prescient.event_dead d
set refusals = d.refusals + 1,
    error = g.error
from unnest($1::bigint[], $2::text[]) as g (number, error)
where d.number = g.number
