-- Deletes dead letters of a subject ($1) and an id ($2) that were given up before $3, of a consumer ($4). Nulls
-- do not narrow.
-- Called by internal/deadletter.Discard.
with gone as (
    delete from prescient.event_dead d
    where d.dead_at is not null
        and ($1::text is null or d.subject = $1)
        and ($2::text is null or d.id = $2)
        and ($3::timestamptz is null or d.dead_at < $3)
        and ($4::text is null or d.consumer = $4)
    returning 1
)
select count(*) from gone
