-- Sums up history by job and outcome: counts, late checks, and percentiles of lateness and
-- duration.
-- Called by jobs/admin.Client.Stats.
select
    h.job_exec,
    h.outcome,
    count(*) as count,
    (extract(epoch from min(j.sla)) * 1000000)::bigint as sla,
    count(*) filter (where h.lateness > j.sla) as late,
    coalesce(extract(epoch from percentile_cont(0.5) within group (order by lateness)) * 1000000, 0)::bigint as lateness_p50,
    coalesce(extract(epoch from percentile_cont(0.99) within group (order by lateness)) * 1000000, 0)::bigint as lateness_p99,
    coalesce(extract(epoch from percentile_cont(0.5) within group (order by duration)) * 1000000, 0)::bigint as duration_p50,
    coalesce(extract(epoch from percentile_cont(0.99) within group (order by duration)) * 1000000, 0)::bigint as duration_p99
from prescient.future_job_history h
left join prescient.job j on j.name = h.job_exec
where h.finished_at >= $1 and finished_at < $2
group by h.job_exec, h.outcome
order by h.job_exec, h.outcome
