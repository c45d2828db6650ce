-- Drops partitions of history. See the function drop_history_months.
-- Called by jobs/admin.Client.prune.
select partition, rows
from prescient.drop_history_months($1, $2)
