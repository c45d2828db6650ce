-- Returns those of the jobs $1 that a run has registered since $2.
-- Called by cmd/internal/runcmd.logUnregistered.
select name
from prescient.job
where name = any ($1::text[]) and registered_at > $2
