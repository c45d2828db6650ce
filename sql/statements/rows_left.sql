-- Which of a few rows ($5) of a claim are still in its slot: see page_read for the other parameters.
-- Called by slots/internal/claim.Session.Remaining.
select id
from prescient.future_job
where next_check_at = $1
    and job = any ($2::bigint[])
    and id between $3 and $4
    and id + 0 = any ($5::bigint[])
