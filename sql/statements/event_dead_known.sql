-- Returns which of the events of a batch ($1: sources, $2: ids) were refused before, and whether they
-- are dead letters.
-- Called by jobs/event/deadletter.publisher.known.
-- Called by jobs/rule/rulestore.Store.markDead.
select d.source, d.id, d.dead_at is not null
from unnest($1::text[], $2::text[]) as g (source, id)
join prescient.event_dead d on d.source = g.source and d.id = g.id
