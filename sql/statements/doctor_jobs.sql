-- Returns the jobs with waiting rows that no run has registered in the last 7 days, and that are no
-- rules, which the commands of every binary have. It jumps from job to job through the slot index, at most $1 times.
-- Called by cmd/internal/doctor.waitingJobs.
with recursive waiting (slot, job, n) as (
    (
        select next_check_at, job, 1
        from prescient.future_job
        order by next_check_at, job
        limit 1
    )
    union all
    select next.slot, next.job, waiting.n + 1
    from waiting
    cross join lateral (
        select f.next_check_at as slot, f.job
        from prescient.future_job f
        where (f.next_check_at, f.job) > (waiting.slot, waiting.job)
        order by f.next_check_at, f.job
        limit 1
    ) as next
    where waiting.n < $1
)
select coalesce(j.name, '#' || w.job) as name, min(w.slot) as slot
from waiting w
left join prescient.job j on j.job = w.job
where (j.registered_at is null or j.registered_at < clock_timestamp() - interval '7 days')
    and not exists (select from prescient.rule r where r.name = j.name)
group by 1
order by 1
