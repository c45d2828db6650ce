-- Gives back the permits of the run with token $1: those of job $2 for the keys $3.
-- Called by slots/internal/permit.Limit.Release.
delete from prescient.job_permit
where token = $1 and job = $2 and key = any ($3::text[])
