-- The events after ($1, $2), of those before which none will come any more; none where some after it were removed, unless
-- that is the beginning.
select mark, position, id, source, type, coalesce(subject, '') as subject, time, generated_at, data, written_at
from prescient.event_outbox
where (mark, position) > ($1::text::xid8, $2)
    and mark < pg_snapshot_xmin(pg_current_snapshot())
    and (
        ($1::text::xid8, $2) = ('0'::xid8, 0)
        or not exists (select from prescient.event_removed r where (r.mark, r.position) > ($1::text::xid8, $2))
    )
order by mark, position
limit $3
