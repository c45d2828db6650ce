-- Returns the timeline of the checks of an entity. See the function why. SQL may ask for -infinity
-- or for a year before Christ: to Go these are its zero time. found: what the last check of a rule
-- found. of_rule: whether a rule has the name of the job.
-- Called by jobs/admin.Client.entries.
select
    id, job, coalesce(item, ''), item is null, at, what, slot, greatest(target, timestamptz '0001-01-01 00:00:00+00') as target, coalesce(by_role, ''), coalesce(app, ''), coalesce(actor, ''),
    coalesce(runner, ''), (extract(epoch from lateness) * 1000000)::bigint, (extract(epoch from duration) * 1000000)::bigint,
    coalesce(error, ''), coalesce(run, ''), opened_at, closed_at, coalesce(hindrance, ''),
    (extract(epoch from within) * 1000000)::bigint, coalesce(moved_from, ''), coalesce(moved_to, ''),
    coalesce((
        select h.payload ->> 'found'
        from prescient.future_job_history h
        where h.entity_name = $1 and h.entity_key = $2 and h.id = w.id and h.job_exec = w.job
            and w.what = 'done'
            and exists (select from prescient.rule r where r.name = w.job)
        limit 1
    ), '') as found,
    exists (select from prescient.rule r where r.name = w.job) as of_rule
from prescient.why($1, $2, $3, $4, $5) as w
