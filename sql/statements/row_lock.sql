-- Locks a row that is about to be checked in a transaction, so that its owner's cancel waits for the outcome.
-- No row: it was cancelled, moved or taken meanwhile.
select id
from prescient.future_job
where next_check_at = $1 and shard = $2 and id = $3
for update
