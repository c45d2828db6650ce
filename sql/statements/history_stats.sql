select
    job_exec,
    outcome,
    count(*) as count,
    coalesce(extract(epoch from percentile_cont(0.5) within group (order by lateness)) * 1000000, 0)::bigint as lateness_p50,
    coalesce(extract(epoch from percentile_cont(0.99) within group (order by lateness)) * 1000000, 0)::bigint as lateness_p99,
    coalesce(extract(epoch from percentile_cont(0.5) within group (order by duration)) * 1000000, 0)::bigint as duration_p50,
    coalesce(extract(epoch from percentile_cont(0.99) within group (order by duration)) * 1000000, 0)::bigint as duration_p99
from prescient.future_job_history
where finished_at >= $1 and finished_at < $2
group by job_exec, outcome
order by job_exec, outcome
