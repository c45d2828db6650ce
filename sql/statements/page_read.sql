-- Reads the rows of a claim that are still in slot $1: of the jobs $2, with ids from $3 to $4.
-- Called by slots/internal/claim.Session.Read.
select
    {{checked}}
from prescient.future_job
where next_check_at = $1
    and job = any ($2::bigint[])
    and id between $3 and $4
