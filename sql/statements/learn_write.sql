insert into prescient.learned_curve (job_exec, class, ages, finished, sampled, computed_at)
values ($1, $2, $3, $4, $5, $6)
