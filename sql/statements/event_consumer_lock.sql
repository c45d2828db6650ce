-- Locks a consumer ($1; null: each), so that no forwarder records what it got until the transaction ends. What a letter
-- waits for is seen by the next statement: without the lock, it could be settled meanwhile, and the letter wait for ever.
-- Called by internal/deadletter.Lock.
select name
from prescient.event_consumer
where $1::text is null or name = $1
order by name
for no key update
