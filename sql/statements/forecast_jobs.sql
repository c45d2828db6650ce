-- Returns what is known of each job. known: a run has registered it in the last 7
-- days, or it is a rule. removed: no run will ever know it, because it was a rule that was removed.
-- Called by internal/forecast.reader.readJobs.
select
    j.name,
    paused_at is not null as paused,
    coalesce(registered_at >= clock_timestamp() - interval '7 days', false) or r.name is not null as known,
    registered_at is null and r.name is null as removed,
    (extract(epoch from sla) * 1000000)::bigint as sla
from prescient.job j
left join prescient.rule r on r.name = j.name
