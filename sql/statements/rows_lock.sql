-- Locks the rows of a batch that no other transaction has locked, in id order. Rows that do not come back are gone.
-- Called by slots/internal/claim.Session.AddLock.
with free as materialized (
    select id
    from prescient.future_job
    where next_check_at = $1
        and job = any ($2::bigint[])
        and id between $3 and $4
        and id + 0 = any ($5::bigint[])
    order by id
    for update skip locked
)
select f.id, f.id in (select id from free) as locked -- hashed, where a join would be by what the statistics know of the slot
from prescient.future_job f
where f.next_check_at = $1
    and f.job = any ($2::bigint[])
    and f.id between $3 and $4
    and f.id + 0 = any ($5::bigint[])
