-- The events after ($1, $2), of those before which none will come any more.
select mark, position, id, source, type, coalesce(subject, '') as subject, time, generated_at, data, written_at
from prescient.event_outbox
where (mark, position) > ($1::text::xid8, $2)
    and mark < pg_snapshot_xmin(pg_current_snapshot())
order by mark, position
limit $3
