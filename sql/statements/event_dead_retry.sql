-- Lets the forwarders try dead letters again: those of a subject ($1), an id ($2), given up before $3, and of a
-- consumer ($4). Nulls do not narrow. The first one of each subject is tried now. A message that waits for its time
-- holds back no other. Returns their number.
-- Called by internal/deadletter.Retry.
with again as (
    update prescient.event_dead d
    set dead_at = null,
        try_at = case
            when d.subject is null
                or not exists (
                    select
                    from prescient.event_dead b
                    where b.consumer = d.consumer
                        and b.subject = d.subject
                        and b.number < d.number
                        and (
                            b.dead_at is null and (b.send_at is null or b.refusals > 0)
                            or b.dead_at is not null and ($2::text is null or b.id = $2) and ($3::timestamptz is null or b.dead_at < $3)
                        )
                )
                then t.now
        end
    from (select statement_timestamp() as now) as t
    where d.dead_at is not null
        and ($1::text is null or d.subject = $1)
        and ($2::text is null or d.id = $2)
        and ($3::timestamptz is null or d.dead_at < $3)
        and ($4::text is null or d.consumer = $4)
    returning 1
)
select count(*) from again
