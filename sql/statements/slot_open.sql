-- Opens a slot. See the function open_slot.
-- Called by slots/internal/claim.Session.openOnce.
select state, planned, settled, (extract(epoch from ahead) * 1000000)::bigint as ahead, coalesce(taken, 0) as taken, coalesce(nth, 0) as nth,
    coalesce(kind, '') as kind, coalesce(left_before, false) as left_before
from prescient.open_slot($1, $2, $3, $4, $5 * interval '1 microsecond', $6::timestamptz, $7, $8)
