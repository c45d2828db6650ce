-- Returns what was written while the clock was ahead, beyond $2, the clock: the beginning of the
-- ledger, its last slot, the number of slots (counted up to 10,000), and how many checks of
-- schedules these have.
-- A ledger that begins with the slot after $1, the last that has begun, is new, and no finding. Slots
-- between $1 and $2 are of the grid before the width was changed, and no finding.
-- Called by slots/ledger.Ledger.Ahead.
select
    (select case when s.since - $1::timestamptz > s.width then s.since end from prescient.setting s) as since,
    max(ahead.slot) as last,
    count(*) as slots,
    coalesce(sum((
        select j.finished + j.rescheduled + j.failed
        from prescient.slot_job j
        where j.slot = ahead.slot and j.job = (select prescient.find_job('schedule'))
    )), 0)::bigint as schedules
from (
    select r.slot
    from prescient.slot_run r
    where r.slot > $2
    order by r.slot desc
    limit 10000
) as ahead
