-- Hands claims ($1) back before they are done, and leaves the slot ($2). Returns how many were handed back.
-- Called by slots/internal/claim.Keeper.HandBack.
with left_slot as (
    delete from prescient.slot_claim
    where token = $2
), back as (
    update prescient.slot_claim
    set allocated_until = timestamptz 'epoch'
    where token = any ($1::bigint[])
    returning token
)
select count(*)
from back
