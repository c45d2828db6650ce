-- Returns the timeline of the checks of an entity. See the function why. SQL may ask for -infinity
-- or for a year before Christ: to Go these are its zero time.
-- Called by jobs/admin.Client.Timeline.
select
    id, job, coalesce(item, ''), item is null, at, what, slot, greatest(target, timestamptz '0001-01-01 00:00:00+00') as target, coalesce(by_role, ''), coalesce(app, ''), coalesce(actor, ''),
    coalesce(runner, ''), (extract(epoch from lateness) * 1000000)::bigint, (extract(epoch from duration) * 1000000)::bigint,
    coalesce(error, ''), coalesce(run, ''), opened_at, closed_at, coalesce(hindrance, ''),
    (extract(epoch from within) * 1000000)::bigint, coalesce(moved_from, ''), coalesce(moved_to, '')
from prescient.why($1, $2, $3, $4, $5)
