-- The curves of the jobs $1.
select job_exec, class, ages, finished, sampled, computed_at
from prescient.learned_curve
where job_exec = any ($1::text[])
order by job_exec, class
