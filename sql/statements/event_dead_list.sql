-- Lists dead letters after a number ($1), up to $2, of a subject ($3) and an id ($4) that were given
-- up before $5, of a consumer ($6). Nulls do not narrow.
-- $7: the page ends with the second row after that many bytes of data, which tells the caller that there
-- are more; null: the rows have no data.
-- Called by internal/deadletter.read.
select
    number, consumer, id, source, type, coalesce(subject, ''), time, published_at,
    case when $7::bigint is not null then data::text end, refusals, coalesce(error, ''), refused_at, dead_at
from (
    select
        page.*,
        sum(case when $7::bigint is not null then octet_length(data::text) end) over (
            order by number rows between unbounded preceding and 2 preceding
        ) as bytes
    from (
        select
            d.number, d.consumer, d.id, d.source, d.type, d.subject, d.time, d.published_at, d.data, d.refusals, d.error, d.refused_at,
            d.dead_at
        from prescient.event_dead d
        where d.dead_at is not null
            and d.number > $1
            and ($3::text is null or d.subject = $3)
            and ($4::text is null or d.id = $4)
            and ($5::timestamptz is null or d.dead_at < $5)
            and ($6::text is null or d.consumer = $6)
        order by d.number
        limit $2
    ) as page
) as page
where $7::bigint is null or coalesce(bytes, 0) < $7
order by number
