-- The last event that was removed, where it comes after ($1, $2): a reader that is there has lost some.
select mark, position, written_at, removed_at
from prescient.event_removed
where (mark, position) > ($1::text::xid8, $2)
