-- The heartbeat of the permits of the run with token $1: those of job $2 for the keys $3. Permits
-- that do not come back are lost: another run has deleted them, since they had expired. An expired
-- permit that is still there belongs to no other run, so it is renewed.
-- Called by slots/internal/permit.Limit.Renew.
update prescient.job_permit
set allocated_until = statement_timestamp() + $4 * interval '1 microsecond'
where token = $1 and job = $2 and key = any ($3::text[])
returning key
