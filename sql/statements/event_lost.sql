-- The last event that was removed, where it comes after ($1, $2): a reader that is there has lost some. A mark that
-- this server has not come to is another server's, from before a restore, and tells nothing.
select mark, position, written_at, removed_at
from prescient.event_removed
where (mark, position) > ($1::text::xid8, $2)
    and mark < prescient.ended_before(prepared => false)
