-- Forgets the curves of a job.
delete from prescient.learned_curve
where job_exec = $1
