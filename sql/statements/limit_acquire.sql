-- Acquires permits of a job for a run. See the function acquire_permits.
-- Called by slots/internal/permit.Limit.acquire.
select key, permits
from prescient.acquire_permits($1, $2, $3, $4, $5, $6 * interval '1 microsecond')
