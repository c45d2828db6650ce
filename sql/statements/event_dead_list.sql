-- Lists dead letters after a number ($1), up to $2, of a subject ($3) and an id ($4) that were given
-- up before $5, of a consumer ($6). Nulls do not narrow.
-- Called by cmd/internal/serve/board.Board.DeadLetters.
-- Called by internal/deadletter.List.Page.
select
    d.number, d.consumer, d.id, d.source, d.type, coalesce(d.subject, ''), d.time, d.published_at, d.data::text, d.refusals,
    coalesce(d.error, ''), d.refused_at, d.dead_at
from prescient.event_dead d
where d.dead_at is not null
    and d.number > $1
    and ($3::text is null or d.subject = $3)
    and ($4::text is null or d.id = $4)
    and ($5::timestamptz is null or d.dead_at < $5)
    and ($6::text is null or d.consumer = $6)
order by d.number
limit $2
