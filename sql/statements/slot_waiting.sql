-- What waits in a slot, by job; each counted up to 100,000 rows in all.
select job_exec, count(*) as waiting
from (
    select f.job_exec
    from prescient.future_job f
    where f.next_check_at = $1
    limit 100000
) as few
group by job_exec
order by job_exec
