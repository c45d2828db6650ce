-- Returns what is known of each job. known: a run has registered it in the last 7 days.
-- Called by slots/forecast.reader.readJobs.
select
    name,
    paused_at is not null as paused,
    coalesce(registered_at >= clock_timestamp() - interval '7 days', false) as known,
    (extract(epoch from sla) * 1000000)::bigint as sla
from prescient.job
