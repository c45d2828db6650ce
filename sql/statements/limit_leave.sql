-- Gives a run's places ($1: its token) back: of a job ($2) those of keys ($3).
delete from prescient.job_place
where token = $1 and job = $2 and key = any ($3::text[])
