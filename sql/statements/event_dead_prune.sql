-- Forgets the refusals of events that no check has tried since an instant ($1), such as those of a
-- deleted schedule. Dead letters stay.
-- Called by jobs/event/deadletter.List.Prune.
with gone as (
    delete from prescient.event_dead d
    where d.dead_at is null and d.tried_at < $1
    returning 1
)
select count(*) from gone
