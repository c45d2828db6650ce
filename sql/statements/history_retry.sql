-- Puts failed checks back, see retry_failed.
select retried, waiting_already
from prescient.retry_failed($1, $2, $3, $4, $5, $6, $7)
