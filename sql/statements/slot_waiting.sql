-- Counts the waiting rows of a slot by job. Counting stops at 100,000 rows in all, or 1,000 of each job:
-- then stopped is true, and there may be more.
-- Called by slots/ledger.Ledger.Waiting.
with job as materialized (
    select number, coalesce(j.name, '#' || number) as name, j.paused_at is not null as paused
    from prescient.jobs_in_slot($1) as number
    left join prescient.job j on j.job = number
), budget as materialized (
    select greatest(1000, 100000 / greatest(1, count(*))) as most from job
)
select job.name as job_exec, least(n.waiting, budget.most) as waiting, n.waiting > budget.most as stopped, job.paused
from job
cross join budget
cross join lateral (
    select count(*) as waiting
    from (
        select
        from prescient.future_job f
        where f.next_check_at = $1 and f.job = job.number
        limit (select most + 1 from budget)
    ) as few
) as n
order by job_exec
