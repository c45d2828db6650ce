-- Counts the rows that ended in the last $1 microseconds, up to $2.
-- Called by internal/advise.newest.
select count(*)
from (
    select
    from prescient.future_job_history
    where finished_at >= now() - $1::double precision * interval '1 microsecond'
    limit $2
) as newest
