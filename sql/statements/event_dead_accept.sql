-- Forgets the refusals of events ($1: sources, $2: ids) that were published after all.
-- Called by jobs/event/deadletter.publisher.accept.
delete from prescient.event_dead d
using unnest($1::text[], $2::text[]) as g (source, id)
where d.source = g.source and d.id = g.id and d.dead_at is null
