-- Counts the dead letters of a subject ($1) and an id ($2) that were given up before $3, of a consumer ($4).
-- Nulls do not narrow. It also returns since when the oldest and the newest are dead letters, and a digest,
-- which tells these letters from as many others, and from the same ones that were given up again.
-- Called by internal/deadletter.Count.
-- Called by slots/ledger.Ledger.DeadLetters.
select count(*), min(dead_at), max(dead_at), coalesce(sum(hashint8extended(number, (extract(epoch from dead_at) * 1000000)::bigint)), 0)::text
from prescient.event_dead
where dead_at is not null
    and ($1::text is null or subject = $1)
    and ($2::text is null or id = $2)
    and ($3::timestamptz is null or dead_at < $3)
    and ($4::text is null or consumer = $4)
