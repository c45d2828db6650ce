-- Enqueues failed checks again. See the function retry_failed.
-- Called by jobs/admin.Client.Retry.
select retried, waiting_already
from prescient.retry_failed($1, $2, $3, $4, $5, $8, $9, $6, $7)
