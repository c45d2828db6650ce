-- Called by slots/internal/claim.Session.TakeOver.
select jobs, coalesce(first_id, 0) as first_id, coalesce(last_id, 0) as last_id
from prescient.take_over($1, $2, $3, $4, $5 * interval '1 microsecond', $6)
