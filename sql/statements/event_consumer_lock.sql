-- Locks the consumers whose dead letters event_dead_retry or event_dead_discard takes, by the same parameters, so that no
-- forwarder records what they got until the transaction ends. What a letter waits for is seen by the next statement:
-- without the lock, it could be settled meanwhile, and the letter wait for ever.
-- Called by internal/deadletter.lock.
select c.name
from prescient.event_consumer c
where exists (
        select
        from prescient.event_dead d
        where d.consumer = c.name
            and d.dead_at is not null
            and ($1::text is null or d.subject = $1)
            and ($2::text is null or d.id = $2)
            and ($3::timestamptz is null or d.dead_at < $3)
            and ($4::text is null or d.consumer = $4)
    )
order by c.name
for no key update of c
