-- Finds the due rows of a group that cannot be read. It reads each row by itself. See group_read for
-- the parameters.
-- Called by slots/internal/txn.Checker.leavesUnreadable.
select u.id
from (
    select f.id
    from prescient.future_job f
    where f.group_key = $3 and f.next_check_at = $1
    union
    select f.id
    from prescient.future_job f
    where f.entity_name = $4 and f.entity_key = $5 and f.item_key is not null and f.group_key is null and f.next_check_at = $1
    union
    select $6::bigint
) as g
cross join lateral prescient.unreadable_rows($1, $2::bigint[], g.id, g.id) as u
