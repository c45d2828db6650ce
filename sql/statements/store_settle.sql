-- Lets copies wait in this store. See the function settle_rows.
-- Called by jobs/stores.mover.settle.
select settled, replaced, cancelled
from prescient.settle_rows($1, $2, $3, $4, $5, $6)
