-- Counts the dead letters of a subject ($1) and an id ($2), and returns since when the oldest is one.
-- Nulls do not narrow.
-- Called by cmd/serve/board.planner.dead.
-- Called by jobs/event/deadletter.List.Count.
-- Called by slots.Ledger.DeadLetters.
select count(*), min(dead_at)
from prescient.event_dead
where dead_at is not null
    and ($1::text is null or subject = $1)
    and ($2::text is null or id = $2)
