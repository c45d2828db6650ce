-- Forgets the slots beyond $2, the clock, except those with a runner. It returns their number. A
-- ledger that begins beyond the slot after $1, the last that has begun, begins with $1 afterwards. The
-- condition is a difference, because Citus takes no sum of an instant and a column in an update.
-- Called by slots/ledger.Ledger.Rewind.
with moved as (
    update prescient.setting s
    set since = $1
    where s.since - $1::timestamptz > s.width
), live as materialized (
    select slot
    from prescient.slot_claim
    where slot > $2 and allocated_until >= clock_timestamp()
), gone as (
    delete from prescient.slot_run r
    where r.slot > $2
        and not exists (select from live where live.slot = r.slot)
    returning slot
)
select count(*) from gone
