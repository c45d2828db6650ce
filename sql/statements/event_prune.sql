-- Deletes of the oldest $2 events those that every consumer has acknowledged, where there is one, and those that were
-- written before $1. By ctid, which the snapshot keeps: no plan goes through more than those.
with acked as (
    select mark, position
    from prescient.event_consumer
    order by mark, position
    limit 1
), gone as (
    delete from prescient.event_outbox
    where ctid = any (array(
        select o.ctid
        from (
            select ctid, mark, position, written_at
            from prescient.event_outbox
            where mark < pg_snapshot_xmin(pg_current_snapshot())
            order by mark, position
            limit $2
        ) as o
        where o.written_at < $1::timestamptz
            or exists (select from acked a where (o.mark, o.position) <= (a.mark, a.position))
    ))
    returning 1
)
select count(*)
from gone
