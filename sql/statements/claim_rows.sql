-- Called by slots/internal/claim.Session.Claim.
select jobs, coalesce(first_id, 0) as first_id, coalesce(last_id, 0) as last_id, rows, rest
from prescient.claim_rows($1, $2, $3, $4, $5 * interval '1 microsecond', $6, $7)
