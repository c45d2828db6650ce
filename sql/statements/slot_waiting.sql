-- Counts the waiting rows of a slot by job, up to 100,000 each.
-- Called by slots/ledger.Ledger.Waiting.
select coalesce(j.name, '#' || number) as job_exec, n.waiting, j.paused_at is not null as paused
from prescient.jobs_in_slot($1) as number
left join prescient.job j on j.job = number
cross join lateral (
    select count(*) as waiting
    from (
        select
        from prescient.future_job f
        where f.next_check_at = $1 and f.job = number
        limit 100000
    ) as few
) as n
order by job_exec
