-- Returns what is known of each job. known: a run has registered it in the last 7
-- days, or it is a rule.
-- Called by slots/forecast.reader.readJobs.
select
    j.name,
    paused_at is not null as paused,
    coalesce(registered_at >= clock_timestamp() - interval '7 days', false)
        or exists (select from prescient.rule r where r.name = j.name) as known,
    (extract(epoch from sla) * 1000000)::bigint as sla
from prescient.job j
