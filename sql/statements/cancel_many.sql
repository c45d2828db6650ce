-- Cancels waiting checks that a filter finds. See the function cancel_many.
-- Called by jobs/admin.Client.CancelMany.
select cancelled, slot, job, id
from prescient.cancel_many($1, $2, $3, $4, $5, $6, $7, $8, $9)
