-- The heartbeat of a run's claims. Claims that do not come back are gone, or lost. They are locked
-- in the order of their tokens, and the stay of the run in its slot last, as by the record that closes the slot.
-- Called by slots/internal/claim.Keeper.renew.
update prescient.slot_claim c
set allocated_until = statement_timestamp() + $2 * interval '1 microsecond'
from (
    select token
    from prescient.slot_claim
    where token = any ($1::bigint[])
    order by jobs = '{}', token
    for no key update
) as mine
where c.token = mine.token
returning c.token
