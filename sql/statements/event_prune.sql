-- Deletes of the oldest $2 events those that were written before $1 and that every consumer has acknowledged; where $1 is
-- null those of any age, if there is a consumer; where $3 holds whoever has not read them. Notes how far that went, for
-- event_lost. By ctid, which the snapshot keeps: no plan goes through more than those.
with slowest as (
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
        where coalesce(o.written_at < $1::timestamptz, exists (select from slowest))
            and ($3 or not exists (select from slowest s where (s.mark, s.position) < (o.mark, o.position)))
    ))
    returning mark, position, written_at
), noted as (
    insert into prescient.event_removed as r (mark, position, written_at)
    select mark, position, written_at
    from gone
    order by mark desc, position desc
    limit 1
    on conflict (only_row) do update
    set mark = excluded.mark, position = excluded.position, written_at = excluded.written_at, removed_at = clock_timestamp()
    where (excluded.mark, excluded.position) > (r.mark, r.position)
)
select count(*)
from gone
