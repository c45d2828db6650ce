-- What lies beyond $1, the slot that has begun last, and was written while the clock was ahead: the beginning of the ledger, the
-- last slot of it, how many slots (counted up to 10,000), and how many checks of schedules these have. The slot after $1 is no
-- finding as the beginning: a new ledger begins there.
select
    (select case when s.since > $1::timestamptz + s.width then s.since end from prescient.setting s) as since,
    max(ahead.slot) as last,
    count(*) as slots,
    coalesce(sum((
        select j.finished + j.rescheduled + j.failed
        from prescient.slot_job j
        where j.slot = ahead.slot and j.job = prescient.number_of('schedule')
    )), 0)::bigint as schedules
from (
    select r.slot
    from prescient.slot_run r
    where r.slot > $1
    order by r.slot desc
    limit 10000
) as ahead
