-- Ends waiting rows, which slot ($1), job_exec ($2) and id ($3) name, with outcome $4, by the clock
-- $5. It returns how many rows there were. See the function end_row.
-- Called by jobs.Client.End.
select count(*) filter (where prescient.end_row(o.slot, prescient.find_job(o.job_exec), o.id, o.job_exec, $4, $5))
from unnest($1::timestamptz[], $2::text[], $3::bigint[]) as o (slot, job_exec, id)
