-- Receives copies of rows of another store. See the function receive_rows.
-- Called by jobs/stores.mover.receive.
select name
from prescient.receive_rows($1, $2, $3, $4, $5, $6, $7) as name
